/** A device of hubbub, for any surroundings; `hubbub-client/browser` and `hubbub-client/node` have these ready. */

export * from "./base/errors.js";
export { systemRandom, type Random } from "./base/random.js";
export type { RetryPolicy } from "./calls/retrying.js";
export { type HttpAnswer, type Post, postByFetch } from "./calls/transport.js";
export { Device, type Receipt, type Resent } from "./device/device.js";
export type { Preview, PreviewedQuery } from "./device/preview.js";
export type { DeviceOptions, Surroundings } from "./device/session.js";
export type { FeedTask } from "./feed/feed.js";
export { type FeedOptions, TaskFeed } from "./feed/task_feed.js";
export type { Answer, Answers } from "./queries/encode.js";
export type { Budget, PrivacyLimits } from "./state/budget.js";
export type { DeviceState, FeedState } from "./state/state.js";
export type { Store } from "./state/store.js";
export { type Beside, readTask, type Pins, type Query, type Task } from "./task/task.js";
