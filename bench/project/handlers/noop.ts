import { defineHandler } from "turno";

export default defineHandler(() => {});
