/** The feed of a deployment's tasks: entries in one order, each of which was checked to follow the one before. */

import { type Bytes, utf8 } from "../base/bytes.js";
import { DocumentError } from "../base/errors.js";
import { cut } from "../task/schedule.js";
import { readSuccession } from "../task/successions.js";
import { checkCap, type Pins } from "../task/task.js";
import { Purposes } from "./budgets.js";
import { checkEntry, type Entry, MOST_ENTRIES, readEntry } from "./entry.js";

/** Entries from a number on, in order, and the successions of those who sign; nothing of it is checked yet. */
export interface FeedPage {
  readonly entries: readonly Bytes[];
  readonly successions: readonly Bytes[];
}

const MOST_SUCCESSIONS = 64;
const NOTHING_BEFORE = "0".repeat(64);

/** A task that a feed publishes, as a device takes it. */
export interface FeedTask {
  readonly task: string;
  readonly logProof: string | null;
}

export class Feed {
  readonly entries: Entry[] = [];
  private readonly published = new Map<string, Entry>();
  private readonly ends = new Map<string, number>();
  private readonly purposes = new Purposes();

  /** Return the feed of documents that were taken before: their signatures were checked then. */
  static of(documents: readonly string[]): Feed {
    const feed = new Feed();
    for (const document of documents) feed.add(readEntry(utf8(document)));
    return feed;
  }

  /** The number of the last entry; 0 for none. */
  get last(): number {
    return this.entries.length;
  }

  private get lastHash(): string {
    return this.entries.at(-1)?.hash ?? NOTHING_BEFORE;
  }

  /** Take the new entries of a page. If one is refused, those before it stay. */
  take(page: FeedPage, pins: Pins): void {
    const entries = page.entries.map(readEntry);
    if (this.last > 0) this.checkGoesOn(entries.shift());
    if (page.successions.length > MOST_SUCCESSIONS)
      throw new DocumentError(
        "signature",
        `${page.successions.length} successions came with the feed, and at most ${MOST_SUCCESSIONS} may; report it`,
      );
    const successions = page.successions.map(readSuccession);
    const withdrawn = new Set(entries.filter((each) => each.after === -1).map((each) => each.taskId));
    for (const [place, entry] of entries.entries()) {
      this.checkNext(entry);
      checkEntry(entry, pins, successions);
      // A task that cannot be answered stays in the feed if a later entry withdraws it: nobody gets it.
      if (entry.task !== null && !withdrawn.has(entry.taskId)) {
        try {
          checkCap(entry.task);
        } catch (error) {
          // The page may end before the entry that withdraws it: the next page begins with the one before this.
          if (place > 0 && place === entries.length - 1) return;
          throw error;
        }
      }
      this.add(entry);
    }
  }

  /** Return the tasks of these names that are not over, by name: of several, the one that was published last. */
  live(names: ReadonlySet<string>, now: number): Map<string, FeedTask> {
    const found = new Map<string, FeedTask>();
    for (const { task, taskId, file, logProof } of this.published.values()) {
      const { name, schedule } = task!;
      const last = this.ends.get(taskId) ?? schedule.rounds - 1;
      if (!names.has(name) || last < 0 || now >= cut(schedule, last)) continue;
      found.set(name, { task: new TextDecoder().decode(file!), logProof });
    }
    return found;
  }

  private checkGoesOn(first: Entry | undefined): void {
    if (first === undefined || first.number !== this.last) {
      const shown = first === undefined ? "ends before" : `begins with entry ${first.number}, not with`;
      const problem = `the shuffler's feed ${shown} entry ${this.last}, which was taken here`;
      throw wrong("number", `${problem}: it is an older copy`);
    }
    if (first.hash !== this.lastHash)
      throw wrong("previous", `the shuffler's feed has another entry ${this.last} than the one that was taken here`);
  }

  private add(entry: Entry): void {
    this.checkNext(entry);
    if (entry.task !== null) {
      this.purposes.add(`entry ${entry.number} of the feed`, entry.task, entry.budget);
      this.published.set(entry.taskId, entry);
    } else this.ends.set(entry.taskId, entry.after!);
    this.entries.push(entry);
  }

  /** Check that an entry follows the last one, and says what can be. */
  private checkNext({ number, previous, taskId, after }: Entry): void {
    const where = `entry ${number} of the feed`;
    if (number > MOST_ENTRIES && after === null)
      throw wrong("number", `${where} publishes a task, and entry ${MOST_ENTRIES} is the last that may`);
    if (number !== this.last + 1)
      throw wrong("number", `${where} does not follow entry ${this.last}: the feed has a gap`);
    if (previous !== this.lastHash)
      throw wrong("previous", `${where} does not follow the entry ${this.last} that was taken here, but another one`);
    const published = this.published.get(taskId);
    if (after === null) {
      if (published !== undefined) throw wrong("value", `${where} publishes a task which was published before`);
      return;
    }
    if (published === undefined) throw wrong("value", `${where} ends a task which the feed does not publish`);
    if (this.ends.has(taskId)) throw wrong("value", `${where} ends a task which has ended before`);
    if (after >= published.task!.schedule.rounds)
      throw wrong("value", `${where} ends a task after round ${after}, which it does not have`);
  }
}

function wrong(because: "number" | "previous" | "value", problem: string): DocumentError {
  return new DocumentError(because, `${problem}; nothing of it is taken, report it to the operator`);
}
