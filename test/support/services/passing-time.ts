/** Lets a moment of real time pass between two looks at a server that tells nobody when it is done. */
export function passMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, MOMENT_MS));
}

const MOMENT_MS = 30;
