/** A device in a web page: its state is in IndexedDB, and it calls the shuffler by `fetch`. */

import { HubbubError } from "./base/errors.js";
import { postByFetch } from "./calls/transport.js";
import { Device } from "./device/device.js";
import type { DeviceOptions, Surroundings } from "./device/session.js";
import { type FeedOptions, TaskFeed } from "./feed/task_feed.js";
import { IndexedFeedStore, IndexedStore } from "./state/indexed.js";
import type { FeedState } from "./state/state.js";

export * from "./index.js";
export { IndexedFeedStore, IndexedStore } from "./state/indexed.js";

/** Make the device of this page; `around` replaces a part of what it uses, such as the name of its database. */
export async function openDevice(options: DeviceOptions, around: Partial<Surroundings> = {}): Promise<Device> {
  if (!isSecureContext) {
    const why = "browsers encrypt only on pages that came by https:// or from this machine";
    throw new HubbubError(`this page cannot encrypt answers: ${why}; serve it by https://`);
  }
  return Device.open(options, { store: new IndexedStore(), post: postByFetch, ...around });
}

/** Follow the deployment's feed of tasks; the devices of what it publishes are made by `openDevice`. */
export function openFeed(options: FeedOptions, around: Partial<Surroundings<FeedState>> = {}): TaskFeed {
  return new TaskFeed(options, { store: new IndexedFeedStore(), post: postByFetch, ...around });
}
