/** What a device keeps. It is plain JSON: bytes are hex, so that a file and IndexedDB have the same. */

import { StateError } from "../base/errors.js";
import type { Memories } from "../queries/encode.js";
import { ERASED } from "../queries/streams.js";

export const FORMAT = "hubbub-device/1";

/** The outcome of a submission that was acknowledged; each other one is the reason of a refusal, or `ERASED_HERE`. */
export const DONE = "done";
/** The outcome of a submission that may have been sent, and was then erased on this device. */
export const ERASED_HERE = "erased_here";

/** A round's keys as they were received first: others are never used for it. */
export interface PinnedKeys {
  readonly shuffler: { readonly body: string; readonly signature: string };
  readonly analyzer: { readonly body: string; readonly signature: string };
  readonly hash: string;
  readonly overAt: number;
}

/** An answered round: it has reports until they are sealed, then an envelope until it has an outcome. */
export interface Round {
  id: string;
  reports?: string;
  envelope?: string;
  outcome?: string;
  /** Whether it was ever sealed: then it may have left this device. */
  sealed: boolean;
  /** When it may be sent, and when it is forgotten, in seconds since 1970. */
  sendAt?: number;
  overAt: number;
}

/** So many rounds of a task were charged on a day, with so much ε each, in units of 2⁻⁶⁰. */
export interface Charge {
  day: number;
  local: string;
  rounds: number;
}

export interface TaskState {
  readonly name: string;
  readonly epsilon: number;
  readonly epsilonTotal: number | null;
  /** Whether reports of its rounds depend on a common draw. */
  readonly linked: boolean;
  rounds: Record<string, Round>;
  keys: Record<string, PinnedKeys>;
  /** The last round that was forgotten, and how many of those were answered, sealed, or never settled. */
  forgotten: number;
  answered: number;
  sealed: number;
  expired: number;
  charges: Charge[];
  memories?: Memories;
  memoriesOverAt?: number;
}

export interface Enrollment {
  readonly deviceKey: string;
  ticket: string;
  credential?: { readonly id: string; readonly key: string };
}

export interface DeviceState {
  readonly format: string;
  optedOut: boolean;
  tasks: Record<string, TaskState>;
  /** By the first identity of the shuffler that was known when the device enrolled. */
  enrollments: Record<string, Enrollment>;
  successions: string[];
}

export function emptyState(): DeviceState {
  return { format: FORMAT, optedOut: false, tasks: {}, enrollments: {}, successions: [] };
}

/** What a store is for: the name of its format, and what is in it at first. */
export interface Kind<State> {
  readonly format: string;
  readonly empty: () => State;
}

/** What was taken of a feed of tasks: its entries in their order, as they were received. */
export interface FeedState {
  readonly format: string;
  entries: string[];
}

export const FEED_STATE: Kind<FeedState> = {
  format: "hubbub-feed-state/1",
  empty: () => ({ format: FEED_STATE.format, entries: [] }),
};

export const DEVICE_STATE: Kind<DeviceState> = { format: FORMAT, empty: emptyState };

/** Return a state that was read, if this version wrote it. */
export function checkedState<State>(value: unknown, { format: known }: Kind<State>): State {
  const format = (value as { format?: unknown } | null)?.format;
  if (format === known) return value as State;
  throw new StateError(
    `the state is of the format ${String(format).slice(0, 40)}, not ${known}; use another place for it`,
  );
}

/** Forget the rounds that are over at `now`, of all tasks; what is kept of them are counts. */
export function forget(state: DeviceState, now: number): void {
  for (const task of Object.values(state.tasks)) {
    for (const [number, round] of Object.entries(task.rounds)) {
      if (round.overAt >= now) continue;
      task.answered += 1;
      task.sealed += round.sealed ? 1 : 0;
      task.expired += round.outcome === undefined ? 1 : 0;
      task.forgotten = Math.max(task.forgotten, Number(number));
      delete task.rounds[number];
    }
    for (const [number, keys] of Object.entries(task.keys)) if (keys.overAt < now) delete task.keys[number];
    if (task.memoriesOverAt !== undefined && task.memoriesOverAt < now) {
      // The mark stays: a clock that was ahead may be set back, and nothing may be drawn a second time.
      eraseMemories(task);
      delete task.memoriesOverAt;
    }
  }
}

/** Erase what questions over time keep, but for a mark of each: from then on nothing depends on any answer. */
export function eraseMemories(task: TaskState): void {
  if (task.memories === undefined) return;
  task.memories = Object.fromEntries(Object.keys(task.memories).map((name) => [name, ERASED]));
}

/** Erase submissions that have no outcome, or all. What was never sealed never left: its round may be answered anew. */
export function eraseSubmissions(state: DeviceState, which: "unsettled" | "all"): void {
  for (const task of Object.values(state.tasks)) {
    for (const [number, round] of Object.entries(task.rounds)) {
      if (which === "unsettled" && round.outcome !== undefined) continue;
      if (round.reports !== undefined) {
        delete task.rounds[number];
        continue;
      }
      task.rounds[number] = { id: "", outcome: ERASED_HERE, sealed: round.sealed, overAt: round.overAt };
    }
  }
}
