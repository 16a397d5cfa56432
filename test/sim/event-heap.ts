/** Something that happens at an instant of the world. */
export interface WorldEvent {
  atMs: number;
  /** Drawn by the seed: which of several at one instant comes first. */
  tie: number;
  readonly order: number;
  /** Who it happens to; null: to the network, the database or the client. */
  readonly owner: Owner | null;
  /** In a handler's thread, which goes on while the process's own loop is blocked. */
  readonly onThread: boolean;
  cancelled: boolean;
  readonly run: () => void;
}

/** A process as its events see it. */
export interface Owner {
  readonly slot: number;
  readonly alive: boolean;
  /** Its events wait until then; an instant of the past: they do not. */
  heldUntilMs(onThread: boolean): number;
}

/** Events by instant, then by the seed's draw. */
export class EventHeap {
  readonly #events: WorldEvent[] = [];

  push(event: WorldEvent): void {
    const events = this.#events;
    let index = events.length;
    events.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = events[parent] as WorldEvent;
      if (!isBefore(event, above)) break;
      events[index] = above;
      index = parent;
    }
    events[index] = event;
  }

  pop(): WorldEvent | null {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined) return null;
    if (events.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1] as WorldEvent, events[child] as WorldEvent))
        child += 1;
      const below = events[child] as WorldEvent;
      if (!isBefore(below, last)) break;
      events[index] = below;
      index = child;
    }
    events[index] = last;
    return first;
  }
}

function isBefore(left: WorldEvent, right: WorldEvent): boolean {
  if (left.atMs !== right.atMs) return left.atMs < right.atMs;
  return left.tie === right.tie ? left.order < right.order : left.tie < right.tie;
}
