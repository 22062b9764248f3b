/** What all steps of a device share: the task, the state, the calls, and where its randomness and time come from. */

import { hex, ownHex, utf8 } from "../base/bytes.js";
import { type Random, systemRandom } from "../base/random.js";
import { Calls } from "../calls/calls.js";
import { RETRY_POLICY, type RetryPolicy, Retrying } from "../calls/retrying.js";
import type { Post } from "../calls/transport.js";
import { checkedLimits, isLinked, type PrivacyLimits } from "../state/budget.js";
import type { DeviceState, TaskState } from "../state/state.js";
import type { Store } from "../state/store.js";
import { readSuccession } from "../task/successions.js";
import { type Pins, readTask, type Task } from "../task/task.js";

/** What a device is made of. */
export interface DeviceOptions {
  /** The signed task, as its file has it. */
  readonly task: string | Uint8Array;
  /** The public keys that came with the program: never take them from where the task comes from. */
  readonly operatorKey: string | Uint8Array;
  readonly shufflerKey: string | Uint8Array;
  /** The proof that the task is in the transparency log that it demands, as its file has it. */
  readonly logProof?: string | Uint8Array | null;
  /** The shuffler's address, https://HOST:PORT. */
  readonly shuffler: string;
  /** This device's ticket, or where to get it when there is none yet; not for a task that is open. */
  readonly ticket?: string | (() => Promise<string>);
  readonly limits?: PrivacyLimits;
  readonly retry?: Partial<RetryPolicy>;
}

/** What differs between browsers, Node and tests. */
export interface Surroundings<State = DeviceState> {
  readonly store: Store<State>;
  readonly post: Post;
  readonly random?: Random;
  /** Returns seconds since 1970. */
  readonly clock?: () => number;
  readonly sleep?: (milliseconds: number) => Promise<void>;
}

/** Return seconds since 1970. */
export function wallClock(): number {
  return Date.now() / 1000;
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

export class Session {
  readonly id: string;
  readonly store: Store;
  readonly random: Random;
  readonly clock: () => number;
  readonly calls: Calls;
  readonly limits: PrivacyLimits;
  private readonly policy: RetryPolicy;
  private readonly sleep: (milliseconds: number) => Promise<void>;

  private constructor(
    readonly task: Task,
    readonly options: DeviceOptions,
    around: Surroundings,
  ) {
    this.id = hex(task.id);
    this.store = around.store;
    this.random = around.random ?? systemRandom;
    this.clock = around.clock ?? wallClock;
    this.sleep = around.sleep ?? pause;
    this.calls = new Calls(options.shuffler, around.post);
    this.limits = checkedLimits(options.limits ?? {});
    this.policy = { ...RETRY_POLICY, ...options.retry };
  }

  /** Check the task, with the successions that were followed before, and the log's proof. */
  static async open(options: DeviceOptions, around: Surroundings): Promise<Session> {
    const document = typeof options.task === "string" ? utf8(options.task) : options.task;
    const pins: Pins = { operator: options.operatorKey, shuffler: options.shufflerKey };
    const { successions } = await around.store.read();
    const known = successions.map((each) => readSuccession(ownHex(each)));
    const beside = { successions: known, logProof: options.logProof ?? null };
    return new Session(readTask(document, pins, beside), options, around);
  }

  /** Return the retrying of one call of the application. */
  begun(): Retrying {
    return new Retrying(this.policy, this.random, this.sleep);
  }

  /** Return the task's part of a state, which is made if there is none. */
  own(state: DeviceState): TaskState {
    const { name, privacy } = this.task;
    return (state.tasks[this.id] ??= {
      name,
      epsilon: privacy.epsilon,
      epsilonTotal: privacy.epsilonTotal,
      linked: isLinked(this.task),
      rounds: {},
      keys: {},
      forgotten: -1,
      answered: 0,
      sealed: 0,
      expired: 0,
      charges: [],
    });
  }
}
