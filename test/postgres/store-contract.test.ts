import { storeContract } from "../contract/store-contract.ts";
import { createTestDatabase } from "../support/database.ts";
import { openStoreUnderTest } from "./store-on-database.ts";

storeContract("PostgreSQL", async () => openStoreUnderTest(await createTestDatabase()));
