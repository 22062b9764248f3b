/** A device in a web page: its state is in IndexedDB, and it calls the shuffler by `fetch`. */

import { postByFetch } from "./calls/transport.js";
import { Device } from "./device/device.js";
import type { DeviceOptions, Surroundings } from "./device/session.js";
import { IndexedStore } from "./state/indexed.js";

export * from "./index.js";
export { IndexedStore } from "./state/indexed.js";

/** Make the device of this page; `around` replaces a part of what it uses, such as the name of its database. */
export function openDevice(options: DeviceOptions, around: Partial<Surroundings> = {}): Promise<Device> {
  return Device.open(options, { store: new IndexedStore(), post: postByFetch, ...around });
}
