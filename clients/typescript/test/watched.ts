/** Ends a program at a point: before or after the n-th change of its state, or call. */

import type { Post, Surroundings } from "../src/index.js";
import type { Store } from "../src/state/store.js";

export interface Play {
  /** The point at which the program is killed, from 1 on; else it is not. */
  readonly killAt?: number;
  /** The name of the device's database, if a page plays several. */
  readonly name?: string;
}

let died = false;

/** Whether a point was reached at which the program should have been killed, and was not. */
export function killed(): boolean {
  return died;
}

/** Return a store and a way to post with a point before and after each; at point `killAt`, `die` ends the program. */
export function watched(
  store: Store,
  post: Post,
  play: Play,
  die: () => void,
): Pick<Surroundings, "store" | "post"> {
  let points = 0;
  const point = async (): Promise<void> => {
    points += 1;
    if (points !== play.killAt) return;
    died = true;
    die();
    // Nothing more is done, however long the end takes.
    await new Promise(() => undefined);
  };
  const around = async <T>(work: () => Promise<T>): Promise<T> => {
    await point();
    const result = await work();
    await point();
    return result;
  };
  return {
    store: {
      read: () => store.read(),
      change: (change) => around(() => store.change(change)),
      close: () => store.close(),
    },
    post: (...words) => around(() => post(...words)),
  };
}
