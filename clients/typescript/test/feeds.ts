/** Vectors of feeds: the answers of `GetFeed` that a device takes, and those that it must refuse. */

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";

import { type Bytes, fromBase64, utf8 } from "../src/base/bytes.js";
import { readEntry } from "../src/feed/entry.js";
import { GetFeedRequestSchema, GetFeedResponseSchema } from "../src/gen/hubbub/protos/v1/submission_pb.js";
import { type FeedState, type Post, readTask, type Store, TaskFeed } from "../src/index.js";
import { FEED_STATE } from "../src/state/state.js";
import { equal, reason } from "./sessions.js";

type Any = any;
type Test = (name: string, body: () => unknown) => Promise<void>;

/** A store that has these entries, and forgets everything with the page. */
function having(entries: readonly string[]): Store<FeedState> {
  const state: FeedState = { ...FEED_STATE.empty(), entries: [...entries] };
  return {
    read: async () => structuredClone(state),
    change: async (change) => change(state),
    close: () => undefined,
  };
}

/** A shuffler that answers with a page, and then with whatever is left of it from the number that is asked for. */
function answering(entries: readonly Bytes[], successions: readonly Bytes[]): { post: Post; asked: number[] } {
  const asked: number[] = [];
  const post: Post = async (url, body) => {
    equal(url.split("/").at(-1), "GetFeed", "the call");
    const { first } = fromBinary(GetFeedRequestSchema, body);
    asked.push(first);
    const left = asked.length === 1 ? entries : entries.filter((each) => readEntry(each).number >= first);
    const page = create(GetFeedResponseSchema, { entries: [...left], successions: [...successions] });
    return { status: 200, header: () => null, body: toBinary(GetFeedResponseSchema, page) };
  };
  return { post, asked };
}

/** Each answer comes to a device that took the entries of `taken` before. */
export async function feeds(test: Test, vectors: Any): Promise<void> {
  const { operator_key: operatorKey, shuffler_key: shufflerKey } = vectors;
  const options = { operatorKey, shufflerKey, shuffler: "https://127.0.0.1:1" };
  for (const each of vectors.cases) {
    await test(`feeds: ${each.what}`, async () => {
      const taken = each.taken.map((one: string) => new TextDecoder().decode(fromBase64(one))) as string[];
      const entries = each.entries.map(fromBase64) as Bytes[];
      const store = having(taken);
      const { post, asked } = answering(entries, (each.successions ?? []).map(fromBase64));
      const feed = new TaskFeed({ ...options, allow: vectors.names }, { store, post, clock: () => 0 });
      let count = 0;
      equal(await reason(async () => (count = await feed.fetch())), each.because, "the reason");
      equal(asked[0], Math.max(1, taken.length), "the first entry that it asks for");
      const kept = (await store.read()).entries;
      equal(kept.slice(0, taken.length), taken, "what was taken before");
      if (each.because !== null) return;
      equal(kept.length - taken.length, count, "how many there were");
      equal(count, Math.max(0, entries.length - Math.min(1, taken.length)), "the new ones");
      equal([...(await feed.tasks()).keys()].sort(), each.tasks, "the tasks");
      equal([await feed.fetch(), (await store.read()).entries.length], [0, kept.length], "what a second fetch adds");
    });
  }
  await test("feeds: entries before a refused one stay, and others in their place are refused", async () => {
    const of = (what: string): Any => vectors.cases.find((each: Any) => each.what === what);
    const [good, gap] = [of("the whole feed, to a new device"), of("an entry that follows another one")];
    const store = having([]);
    const feed = (entries: Bytes[]): TaskFeed =>
      new TaskFeed({ ...options, allow: vectors.names }, { store, post: answering(entries, []).post, clock: () => 0 });
    const bad = gap.entries.map(fromBase64);
    equal(await reason(() => feed(bad).fetch()), "previous", "the reason");
    equal((await store.read()).entries.length, 1, "what stays");
    const late = { ...options, allow: vectors.names };
    const whole = answering(good.entries.map(fromBase64), []);
    // Another tab takes another entry while this one waits for its answer.
    const post: Post = async (...words) => {
      const other = bad[1]!;
      await store.change((state) => void (state.entries[1] = new TextDecoder().decode(other)));
      return whole.post(...words);
    };
    equal(await reason(() => new TaskFeed(late, { store, post }).fetch()), "previous", "the reason of another tab");
  });
}

/** Makes a store of a feed at a place of its own; with the name of an earlier one, another one at the same place. */
export type FeedStores = (name: string) => Store<FeedState>;

/** What following a feed promises, over files and over IndexedDB. */
export async function follows(
  test: (claim: string, body: (name: string) => Promise<void>) => Promise<void>,
  vectors: Any,
  stores: FeedStores,
): Promise<void> {
  const { operator_key: operatorKey, shuffler_key: shufflerKey } = vectors;
  const options = { operatorKey, shufflerKey, allow: vectors.names, shuffler: "https://127.0.0.1:1" };
  const of = (what: string): Bytes[] => vectors.cases.find((each: Any) => each.what === what).entries.map(fromBase64);
  const fetched = (name: string, post: Post): TaskFeed =>
    new TaskFeed(options, { store: stores(name), post, clock: () => 0 });

  await test("a feed is followed from the last entry on, also by two at once and by the next program", async (name) => {
    const whole = of("the whole feed, to a new device");
    const both = [0, 1].map(() => fetched(name, answering(whole, []).post));
    equal(await Promise.all(both.map((each) => each.fetch())), [3, 3], "entries of each");
    equal((await stores(name).read()).entries.length, 3, "entries that are kept");
    const { post, asked } = answering(whole.slice(2), []);
    const later = fetched(name, post);
    equal([await later.fetch(), asked], [0, [3]], "new entries, and the number that is asked for");
    equal([...(await later.tasks()).keys()].sort(), ["flights", "trains"], "the tasks");
    equal(await reason(() => fetched(name, answering([], []).post).fetch()), "number", "an older copy later");
  });

  await test("a page that ends before its task is withdrawn is taken up to that task", async (name) => {
    const whole = of("the same, to a new device");
    const sizes = [2, 4, 4];
    const { post } = answering(whole, []);
    const cut: Post = async (url, body, ...rest) => {
      const answer = await post(url, body, ...rest);
      const page = fromBinary(GetFeedResponseSchema, answer.body);
      page.entries = page.entries.slice(0, sizes.shift());
      return { ...answer, body: toBinary(GetFeedResponseSchema, page) };
    };
    const feed = fetched(name, cut);
    equal([await feed.fetch(), sizes], [4, []], "entries, and pages that were not asked for");
    equal([...(await feed.tasks()).keys()].sort(), ["flights", "ships"], "the tasks");
  });
}

/** Entries of a feed that publish a task which demands a log: the proof beside it is checked before it is taken. */
export async function loggedEntries(test: Test, vectors: Any): Promise<void> {
  const [operatorKey, shufflerKey] = [vectors.operator_key as string, vectors.shuffler_key as string];
  for (const each of vectors.entries) {
    await test(`logged: an entry, ${each.what}`, async () => {
      const { post } = answering([fromBase64(each.entry)], []);
      const options = { allow: ["flights"], operatorKey, shufflerKey, shuffler: "https://127.0.0.1:1" };
      const feed = new TaskFeed(options, { store: having([]), post, clock: () => 0 });
      equal(await reason(() => feed.fetch()), each.because, "the reason");
      const found = (await feed.tasks()).get("flights");
      equal(found !== undefined, each.because === null, "whether it is taken");
      if (found === undefined) return;
      const { log } = readTask(utf8(found.task), { operator: operatorKey, shuffler: shufflerKey }, found);
      equal(log !== null, true, "whether it demands a log");
    });
  }
}
