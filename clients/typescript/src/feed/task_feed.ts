/** Follows a deployment's feed, so that an application ships the parties' keys and the names of tasks, and no task. */

import { utf8 } from "../base/bytes.js";
import { DocumentError, HubbubError } from "../base/errors.js";
import { type Random, systemRandom } from "../base/random.js";
import { publicKey } from "../base/signatures.js";
import { Calls } from "../calls/calls.js";
import { RETRY_POLICY, type RetryPolicy, Retrying } from "../calls/retrying.js";
import { pause, type Surroundings, wallClock } from "../device/session.js";
import type { FeedState } from "../state/state.js";
import { readEntry } from "./entry.js";
import { Feed, type FeedTask } from "./feed.js";

export interface FeedOptions {
  /** The names of the tasks that the application takes part in, if the feed publishes them. */
  readonly allow: Iterable<string>;
  /** The public keys that came with the program: never take them from where the feed comes from. */
  readonly operatorKey: string | Uint8Array;
  readonly shufflerKey: string | Uint8Array;
  /** The shuffler's address, https://HOST:PORT. */
  readonly shuffler: string;
  readonly retry?: Partial<RetryPolicy>;
}

export class TaskFeed {
  private readonly allowed: ReadonlySet<string>;
  private readonly calls: Calls;
  private readonly random: Random;
  private readonly clock: () => number;
  private readonly sleep: (milliseconds: number) => Promise<void>;

  constructor(
    private readonly options: FeedOptions,
    private readonly around: Surroundings<FeedState>,
  ) {
    if (typeof options.allow === "string")
      throw new HubbubError("allow is a text, and several names are expected; give a list, such as ['colors']");
    this.allowed = new Set(options.allow);
    for (const role of ["operator", "shuffler"] as const) publicKey(options[`${role}Key`], `the ${role}'s key`);
    this.calls = new Calls(options.shuffler, around.post);
    this.random = around.random ?? systemRandom;
    this.clock = around.clock ?? wallClock;
    this.sleep = around.sleep ?? pause;
  }

  /** Take the entries that are new at the shuffler; return how many there were.
   *
   * Throws a DocumentError if its feed is an older copy, or another one, or an entry is not in order. The entries
   * before that one stay. */
  async fetch(): Promise<number> {
    const retrying = new Retrying({ ...RETRY_POLICY, ...this.options.retry }, this.random, this.sleep);
    const pins = { operator: this.options.operatorKey, shuffler: this.options.shufflerKey };
    const feed = await this.taken();
    for (const before = feed.last; ;) {
      const last = feed.last;
      // From the last known entry on: the shuffler shows that its feed goes on from there.
      const page = await retrying.retry((timeoutMs) => this.calls.getFeed(Math.max(1, last), timeoutMs));
      try {
        feed.take(page, pins);
      } finally {
        if (feed.last > last) await this.keep(feed);
      }
      if (feed.last === last) return last - before;
    }
  }

  /** Return the tasks that the application allows and that are not over, by name; no call is made. */
  async tasks(): Promise<Map<string, FeedTask>> {
    return (await this.taken()).live(this.allowed, this.clock());
  }

  close(): void {
    this.around.store.close();
  }

  private async taken(): Promise<Feed> {
    return Feed.of((await this.around.store.read()).entries);
  }

  /** Store the entries of a feed that are not there yet; another tab may have taken some, or more. */
  private async keep(feed: Feed): Promise<void> {
    await this.around.store.change((state) => {
      for (const [place, { document, hash }] of feed.entries.entries()) {
        const stored = state.entries[place];
        if (stored === undefined) state.entries.push(document);
        else if (stored !== document && readEntry(utf8(stored)).hash !== hash)
          throw new DocumentError(
            "previous",
            `the shuffler showed another entry ${place + 1} of the feed than to another tab; report it to the operator`,
          );
      }
    });
  }
}
