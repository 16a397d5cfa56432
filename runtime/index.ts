/** The engine for programs that embed it: stores over one database, and the roles. */
export { composeReconciler, composeWebApp, openStores, type Stores, startServer, startWorker } from "./compose.ts";
