/** Tries again, with the same bytes, what may succeed later: after the wait that was asked for, and a random one. */

import { Refusal, Unreachable } from "../base/errors.js";
import { draw, type Random, SPAN } from "../base/random.js";
import { TRANSIENT } from "./calls.js";

/** How long to try, in milliseconds. */
export interface RetryPolicy {
  /** All tries of a call of the application together. */
  readonly totalMs: number;
  readonly callMs: number;
  /** The longest random pause after the first try. It doubles with each further one. */
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

export const RETRY_POLICY: RetryPolicy = {
  totalMs: 60_000,
  callMs: 10_000,
  firstPauseMs: 200,
  longestPauseMs: 10_000,
};

/** The tries of one call of the application. */
export class Retrying {
  private readonly until: number;

  constructor(
    private readonly policy: RetryPolicy,
    private readonly random: Random,
    private readonly sleep: (milliseconds: number) => Promise<void>,
  ) {
    this.until = performance.now() + policy.totalMs;
  }

  /** Call `attempt` with its time, until it succeeds, or another try cannot help, or the time is up. */
  async retry<T>(attempt: (timeoutMs: number) => Promise<T>): Promise<T> {
    let refused: Refusal | undefined;
    for (let tries = 0; ; tries++) {
      try {
        // Whole: timers of Node take no fraction.
        const left = Math.ceil(Math.min(this.policy.callMs, this.until - performance.now()));
        return await attempt(Math.max(1, left));
      } catch (error) {
        if (!isTransient(error)) throw error;
        if (error instanceof Refusal) refused = error;
        const limit = Math.min(
          this.policy.longestPauseMs,
          this.policy.firstPauseMs * 2 ** Math.min(tries, 30),
        );
        const pause = error.retryAfterMs + (draw(this.random) / SPAN) * limit;
        // The last try may have had a moment only: then the answer to those before says more than its end.
        if (performance.now() >= this.until) throw refused ?? error;
        // No call could follow a pause that uses up the time.
        if (performance.now() + pause >= this.until) throw error;
        await this.sleep(pause);
      }
    }
  }
}

function isTransient(error: unknown): error is Refusal | Unreachable {
  return error instanceof Unreachable || (error instanceof Refusal && TRANSIENT.has(error.reason));
}
