import { afterEach, beforeEach, describe } from "vitest";
import { childContract } from "./child-contract.ts";
import { claimContract } from "./claim-contract.ts";
import { deliveryContract } from "./delivery-contract.ts";
import { finishContract } from "./finish-contract.ts";
import { jobContract } from "./job-contract.ts";
import { keyContract } from "./key-contract.ts";
import { leaseContract } from "./lease-contract.ts";
import { onceContract } from "./once-contract.ts";
import { outboxContract } from "./outbox-contract.ts";
import { pauseContract } from "./pause-contract.ts";
import { createScene } from "./scene.ts";
import { scheduleContract } from "./schedule-contract.ts";
import { slaContract } from "./sla-contract.ts";
import type { StoreUnderTest } from "./store-under-test.ts";
import { workerContract } from "./worker-contract.ts";

/** The behaviour of every store, whatever it is made of. */
export function storeContract(name: string, makeStore: () => Promise<StoreUnderTest>): void {
  describe(`the store contract on ${name}`, () => {
    const scene = createScene(makeStore);
    beforeEach(() => scene.open());
    afterEach(() => scene.close());

    jobContract(scene);
    claimContract(scene);
    deliveryContract(scene);
    finishContract(scene);
    leaseContract(scene);
    keyContract(scene);
    childContract(scene);
    onceContract(scene);
    outboxContract(scene);
    scheduleContract(scene);
    pauseContract(scene);
    slaContract(scene);
    workerContract(scene);
  });
}
