/** Where the state is: in IndexedDB, in files, or in memory for a trial. */

import type { DeviceState } from "./state.js";

/** Reads and changes the state. It may be used by several tabs or processes at a time. */
export interface Store<State = DeviceState> {
  read(): Promise<State>;

  /** Change the state in one step, which is on disk as a whole when this returns, or not at all.
   *
   * `change` may be called several times, each time with the newest state. If it throws, nothing is stored. */
  change<T>(change: (state: State) => T): Promise<T>;

  close(): void;
}
