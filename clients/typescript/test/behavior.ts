/** What a device promises, against a shuffler that answers as a test says: the same over files and over IndexedDB. */

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ed25519 } from "@noble/curves/ed25519.js";

import { fromBase64, hex, joined, ownHex, utf8 } from "../src/base/bytes.js";
import { canonical } from "../src/base/canonical.js";
import { systemRandom } from "../src/base/random.js";
import { proven } from "../src/device/enrollment.js";
import { Session } from "../src/device/session.js";
import {
  EnrollRequestSchema,
  EnrollResponseSchema,
  GetRoundResponseSchema,
  SubmitRequestSchema,
  SubmitResponseSchema,
} from "../src/gen/hubbub/protos/v1/submission_pb.js";
import type { Answers, Device, HttpAnswer, Post, PrivacyLimits, Store } from "../src/index.js";
import { Device as DeviceClass, postByFetch } from "../src/index.js";
import { drawReports, type Memories } from "../src/queries/encode.js";
import { IndexedStore } from "../src/state/indexed.js";
import { type Longitudinal, readQuestion } from "../src/task/questions.js";
import { readRandomizer } from "../src/task/randomizers.js";
import { readSuccession } from "../src/task/successions.js";
import type { Task } from "../src/task/task.js";
import { type FeedStores, follows } from "./feeds.js";
import type { Load, Result } from "./vectors.js";

/** Makes a store at a place of its own; with the name of an earlier one, another one at the same place. */
export type Stores = (name: string) => Store;

const ROUND = 1;
const NOW = 1767230000;
const ANSWERS: Answers = { carrier: "Ö", delay: 5 };
const HOUR = 3600;

type Any = any;

/** A shuffler that notes what comes, and refuses what it is told to: a reason, or "lost" for no answer at all. */
class Shuffler {
  readonly submitted: { id: string; envelope: string; credential: string }[] = [];
  readonly deviceKeys = new Set<string>();
  readonly tickets: string[] = [];
  asked = 0;
  /** The lengths of the next credentials' keys. */
  keyBytes: number[] = [];
  private credentials = 0;

  constructor(
    private readonly keys: Any,
    private readonly refusals: string[] = [],
  ) {}

  readonly post: Post = async (url, body) => {
    const call = url.split("/").at(-1);
    if (call === "GetRound") return this.round();
    if (call === "Enroll") return this.enrolled(body);
    const { submission, destination } = fromBinary(SubmitRequestSchema, body);
    const { id, envelope, credential } = submission!;
    this.submitted.push({ id: hex(id), envelope: hex(envelope), credential: hex(credential) });
    const refusal = this.refusals.shift();
    if (refusal === "lost") throw new TypeError("the connection was lost");
    if (refusal === "not a message") return answered(utf8("\u0001"));
    if (refusal?.startsWith("status ")) return { ...answered(utf8("")), status: Number(refusal.slice(7)) };
    if (refusal !== undefined && refusal !== "another receipt") return refused(refusal);
    const submissionId = refusal === undefined ? id : id.toReversed();
    const receipt = { submissionId, round: destination!.round };
    return answered(toBinary(SubmitResponseSchema, create(SubmitResponseSchema, { receipt })));
  };

  private round(): HttpAnswer {
    this.asked += 1;
    const signed = (one: Any) => ({ document: { body: fromBase64(one.body), signature: ownHex(one.signature) } });
    const keySet = {
      shuffler: signed(this.keys.shuffler),
      analyzer: signed(this.keys.analyzer),
      successions: [],
    };
    return answered(toBinary(GetRoundResponseSchema, create(GetRoundResponseSchema, { keySet })));
  }

  private enrolled(body: Uint8Array): HttpAnswer {
    const [redemption] = fromBinary(EnrollRequestSchema, body).redemptions;
    this.deviceKeys.add(hex(redemption!.deviceKey));
    this.tickets.push(new TextDecoder().decode(redemption!.ticket));
    if (this.tickets.at(-1) === "spent") return refused("ticket_redeemed");
    this.credentials += 1;
    const id = new Uint8Array(44).fill(this.credentials);
    new DataView(id.buffer).setBigUint64(4, BigInt(NOW + 24 * HOUR));
    const value = { id, key: new Uint8Array(this.keyBytes.shift() ?? 32).fill(7) };
    const answers = [{ answer: { case: "credential" as const, value } }];
    return answered(toBinary(EnrollResponseSchema, create(EnrollResponseSchema, { answers })));
  }
}

function answered(body: Uint8Array): HttpAnswer {
  return { status: 200, header: () => null, body };
}

function refused(reason: string): HttpAnswer {
  const headers: Record<string, string> = { "hubbub-reason": reason, "hubbub-retry-after-ms": "1" };
  return { status: 400, header: (name) => headers[name] ?? null, body: utf8('{"message": "told so"}') };
}

function equal(found: unknown, wanted: unknown, what: string): void {
  const texts = [found, wanted].map((each) => JSON.stringify(each));
  if (texts[0] !== texts[1]) throw new Error(`${what}: ${texts[0]}, not ${texts[1]}`);
}

/** Return the name of the error that something throws, and the reason if it is a refusal's. */
async function thrown(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    const { name, reason } = error as { name: string; reason?: string };
    return reason ?? name;
  }
  return "nothing";
}

/** Run everything; each claim is a result of its own. */
export async function behave(load: Load, stores: Stores, feedStores: FeedStores): Promise<Result[]> {
  const feeds = JSON.parse(new TextDecoder().decode(await load("feeds.json"))) as Any;
  const vectors = JSON.parse(new TextDecoder().decode(await load("refused.json"))) as Any;
  const [keys] = vectors.round_keys.sets;
  const other = vectors.round_keys.sets.find((each: Any) =>
    each.what.startsWith("the successor's successor"),
  );
  const results: Result[] = [];
  let place = 0;

  const device = (
    name: string,
    shuffler: Shuffler,
    limits: PrivacyLimits = {},
    now = NOW,
    store = stores(name),
    ticket: string | (() => Promise<string>) = " a ticket\n",
    totalMs = 60_000,
  ): Promise<Device> => {
    const options = {
      task: fromBase64(vectors.tasks[0].document),
      operatorKey: vectors.keys.operator as string,
      shufflerKey: vectors.keys.shuffler as string,
      shuffler: "https://127.0.0.1:1",
      ticket,
      limits,
      retry: { firstPauseMs: 1, totalMs },
    };
    return DeviceClass.open(options, { store, post: shuffler.post, clock: () => now, random: systemRandom });
  };
  const test = async (claim: string, body: (name: string) => Promise<void>): Promise<void> => {
    try {
      await body(`behavior-${place++}`);
      results.push([claim, null]);
    } catch (error) {
      results.push([claim, error instanceof Error ? `${error.name}: ${error.message}` : String(error)]);
    }
  };
  const shuffler = (...refusals: string[]): Shuffler => new Shuffler(keys, refusals);

  await follows(test, feeds, feedStores);

  await test("the same bytes are sent until they are acknowledged, and then erased", async (name) => {
    const there = shuffler("overloaded", "lost", "not_ready", "disk_full");
    const one = await device(name, there);
    equal(await one.submit(ANSWERS, ROUND), { round: ROUND, used: true, sent: true }, "the receipt");
    equal(new Set(there.submitted.map((each) => JSON.stringify(each))).size, 1, "different submissions");
    equal(there.submitted.length, 5, "tries");
    const state = JSON.stringify(await stores(name).read());
    if (state.includes(there.submitted[0]!.envelope)) throw new Error("the envelope is still stored");
    equal(await one.waiting(), [], "what waits");
  });

  await test("a refusal is told although the last try had too little time for an answer", async (name) => {
    const there = shuffler("overloaded");
    const answer = there.post;
    const silent: Post = async (url, body, headers, timeoutMs) => {
      if (there.submitted.length === 0) return answer(url, body, headers, timeoutMs);
      // Longer than its time: timers may end a moment early.
      await new Promise((resolve) => setTimeout(resolve, timeoutMs + 50));
      throw new TypeError("no answer in time");
    };
    const one = await device(name, Object.assign(there, { post: silent }), {}, NOW, stores(name), undefined, 500);
    equal(await thrown(one.submit(ANSWERS, ROUND)), "overloaded", "the error");
    equal(await one.waiting(), [ROUND], "what waits");
  });

  await test("what is no receipt of this submission is none, and a proxy's refusal comes to an end", async (name) => {
    const there = shuffler("another receipt", "not a message", "status 408", "status 429", "status 503");
    await (await device(name, there)).submit(ANSWERS, ROUND);
    equal(there.submitted.length, 6, "tries");
    equal(new Set(there.submitted.map((each) => JSON.stringify(each))).size, 1, "different submissions");
    const final = await device(`${name}b`, shuffler("status 404"));
    equal(await thrown(final.submit(ANSWERS, ROUND)), "none", "the reason of a status that is for good");
    equal(await final.waiting(), [ROUND], "what waits");
  });

  await test("a round is answered once, also by another device object over the same state", async (name) => {
    const there = shuffler();
    await (await device(name, there)).submit(ANSWERS, ROUND);
    const again = await device(name, there);
    equal(
      await again.submit({ carrier: "AA", delay: null }, ROUND),
      { round: ROUND, used: false, sent: false },
      "receipt",
    );
    equal(there.submitted.length, 1, "submissions");
  });

  await test("two that answer at once draw one submission between them", async (name) => {
    const there = shuffler();
    const both = await Promise.all([device(name, there), device(name, there), device(name, there)]);
    const receipts = await Promise.all(both.map((each) => each.submit(ANSWERS, ROUND)));
    equal(receipts.filter((each) => each.used).length, 1, "answers that were used");
    equal(new Set(there.submitted.map((each) => each.id + each.envelope)).size, 1, "different submissions");
    equal(there.deviceKeys.size, 1, "device keys");
  });

  for (const reason of ["too_late", "erased", "round_full", "task_ended"]) {
    await test(`after ${reason} the submission is discarded`, async (name) => {
      const there = shuffler(reason);
      const one = await device(name, there);
      equal(await thrown(one.submit(ANSWERS, ROUND)), reason, "the error");
      equal(await one.waiting(), [], "what waits");
      equal(await thrown(one.submit(ANSWERS, ROUND)), reason, "the error of a second call");
      equal(there.submitted.length, 1, "submissions");
    });
  }

  for (const reason of ["malformed", "revoked", "key_set_differs", "a_reason_to_come"]) {
    await test(`after ${reason} the submission is kept, and not sent again by itself`, async (name) => {
      const there = shuffler(reason);
      const one = await device(name, there);
      equal(await thrown(one.submit(ANSWERS, ROUND)), reason, "the error");
      equal([await one.waiting(), there.submitted.length], [[ROUND], 1], "what waits, and submissions");
      equal((await one.resend()).receipts.length, 1, "receipts of resend()");
      equal(new Set(there.submitted.map((each) => each.envelope)).size, 1, "different envelopes");
    });
  }

  await test("after not_enrolled the ticket is redeemed again, once, with the same device key", async (name) => {
    const there = shuffler("not_enrolled");
    await (await device(name, there)).submit(ANSWERS, ROUND);
    equal(there.submitted.length, 2, "submissions");
    equal(new Set(there.submitted.map((each) => each.credential)).size, 2, "credentials");
    equal(new Set(there.submitted.map((each) => each.id + each.envelope)).size, 1, "different submissions");
    equal(there.deviceKeys.size, 1, "device keys");
    const twice = shuffler("not_enrolled", "not_enrolled");
    equal(
      await thrown((await device(`${name}b`, twice)).submit(ANSWERS, ROUND)),
      "not_enrolled",
      "the second time",
    );
  });

  await test("a function gives a ticket once, and another one only if that is spent", async (name) => {
    const given = ["spent", "good", "never"];
    const ticket = async (): Promise<string> => given.shift()!;
    const there = shuffler("malformed", "not_enrolled");
    const one = await device(name, there, {}, NOW, stores(name), ticket);
    equal(await thrown(one.submit(ANSWERS, ROUND)), "ticket_redeemed", "the first ticket");
    equal(await thrown(one.submit(ANSWERS, ROUND)), "malformed", "the second ticket");
    await one.submit(ANSWERS, ROUND);
    equal(
      [there.tickets, given],
      [["spent", "spent", "good", "good"], ["never"]],
      "what was redeemed, and is left",
    );
    equal(there.deviceKeys.size, 1, "device keys");
  });

  await test("after a credential has ended, one ticket more is asked for, and no third", async (name) => {
    const given = ["first", "second", "never"];
    const ticket = async (): Promise<string> => given.shift()!;
    const there = shuffler();
    await (await device(name, there, {}, NOW, stores(name), ticket)).submit(ANSWERS, ROUND);
    await stores(name).change((state) => {
      const [enrollment] = Object.values(state.enrollments);
      const ended = "00000001" + "0".repeat(80);
      enrollment!.credential = { ...enrollment!.credential!, id: ended };
      for (const task of Object.values(state.tasks)) task.rounds = {};
    });
    const away: Post = async (url, ...rest) => {
      if (url.endsWith("Enroll")) return refused("malformed");
      return there.post(url, ...rest);
    };
    const one = await device(name, { post: away } as Shuffler, {}, NOW, stores(name), ticket);
    equal(await thrown(one.submit(ANSWERS, ROUND)), "malformed", "the error");
    await (await device(name, there, {}, NOW, stores(name), ticket)).resend();
    equal([there.tickets, given], [["first", "second"], ["never"]], "what was redeemed, and is left");
    equal(there.deviceKeys.size, 1, "device keys");
  });

  await test("a succession that comes later hides no enrollment", async (name) => {
    const [document] = vectors.round_keys.sets.find((each: Any) =>
      each.what.startsWith("the shuffler's successor"),
    ).successions;
    const succession = readSuccession(fromBase64(document));
    // A task that names the successor, signed by keys whose seeds are the vectors'.
    const { task } = JSON.parse(new TextDecoder().decode(fromBase64(vectors.tasks[0].document))) as Any;
    task.identities.shuffler = succession.new;
    const signed = joined(utf8("hubbub-task/1\0"), canonical(task));
    const by = (seed: number): string => hex(ed25519.sign(signed, new Uint8Array(32).fill(seed)));
    const signatures = { operator: by(11), shuffler: by(14) };
    const options = {
      task: canonical({ signatures, task }),
      operatorKey: vectors.keys.operator as string,
      shufflerKey: succession.new,
      shuffler: "https://127.0.0.1:1",
      ticket: "a ticket",
    };
    const there = shuffler();
    const store = stores(name);
    const prove = async (): Promise<void> => {
      const session = await Session.open(options, { store, post: there.post, clock: () => NOW });
      const to = { taskId: session.task.id, round: ROUND, keySetHash: new Uint8Array(32) };
      await proven(session, to, new Uint8Array(16), new Uint8Array(9), session.begun());
    };
    await prove();
    await store.change((state) => void state.successions.push(hex(succession.document)));
    await prove();
    equal([there.deviceKeys.size, there.tickets], [1, ["a ticket"]], "device keys, and what was redeemed");
  });

  await test("a credential with a key of another length is not stored", async (name) => {
    const there = shuffler();
    there.keyBytes = [65, 0, 32];
    await (await device(name, there)).submit(ANSWERS, ROUND);
    equal([there.tickets.length, there.submitted.length], [3, 1], "redemptions, and submissions");
  });

  await test("answers are kept without any network, and sent later as they were drawn", async (name) => {
    const there = shuffler();
    const one = await device(name, there);
    equal(await one.keep(ANSWERS, ROUND), { round: ROUND, used: true }, "what was kept");
    equal(await one.keep(ANSWERS, 2), { round: 2, used: true }, "what was kept for the next round");
    equal(there.asked, 0, "calls");
    const before = (await stores(name).read()).tasks;
    const id = Object.values(before)[0]!.rounds[ROUND]!.id;
    equal(
      (await one.resend()).receipts.map((each) => each.round),
      [ROUND],
      "what was sent",
    );
    equal(
      there.submitted.map((each) => each.id),
      [id],
      "the ids",
    );
    equal(await one.waiting(), [2], "what waits");
    equal(await thrown(one.submit(ANSWERS, 2)), "NoRound", "the error of a round to come");
  });

  await test("no answer is in the state, and reports are erased once they are sealed", async (name) => {
    const there = shuffler("malformed");
    const one = await device(name, there);
    await one.keep(ANSWERS, ROUND);
    const kept = JSON.stringify(await stores(name).read());
    if (kept.includes("Ö")) throw new Error("an answer is stored");
    const { reports } = Object.values((await stores(name).read()).tasks)[0]!.rounds[ROUND]!;
    await thrown(one.submit(ANSWERS, ROUND));
    const round = Object.values((await stores(name).read()).tasks)[0]!.rounds[ROUND]!;
    equal([reports!.length, round.reports, round.envelope!.length > 0], [16, undefined, true], "the round");
  });

  await test("other keys than those that were seen first are refused, and nothing is sealed", async (name) => {
    const first = await device(name, new Shuffler(keys, ["malformed"]));
    await thrown(first.submit(ANSWERS, ROUND));
    // The pinned keys are used; the shuffler is not asked again.
    const second = new Shuffler(other, []);
    await (await device(name, second)).resend();
    equal([second.asked, second.submitted.length], [0, 1], "questions and submissions");
    // Two that ask at once: while this one asks, the other one has pinned other keys.
    const racing = stores(`${name}b`);
    const asking = shuffler();
    const post: Post = async (...words) => {
      await racing.change((state) => {
        const record = { body: "", signature: "" };
        const keys = Object.values(state.tasks)[0]!.keys;
        keys[ROUND] = { shuffler: record, analyzer: record, hash: "00", overAt: NOW * 2 };
      });
      return asking.post(...words);
    };
    const one = await device(`${name}b`, { post } as Shuffler);
    equal(await thrown(one.submit(ANSWERS, ROUND)), "KeySetChanged", "the error");
    const round = Object.values((await racing.read()).tasks)[0]!.rounds[ROUND]!;
    equal([round.sealed, round.envelope], [false, undefined], "what was sealed");
  });

  await test("a device that has opted out takes nothing, and what waits is erased", async (name) => {
    const there = shuffler("malformed");
    const one = await device(name, there);
    await thrown(one.submit(ANSWERS, ROUND));
    await one.keep(ANSWERS, 2);
    await one.optOut();
    equal(await thrown(one.submit(ANSWERS, ROUND)), "OptedOut", "the error");
    equal([await one.isOptedOut(), await one.waiting()], [true, []], "the state");
    equal((await one.resend()).receipts, [], "what is sent");
    await one.optIn();
    // What was sealed may have been sent, so its round stays answered. What was not never left.
    equal(await thrown(one.submit(ANSWERS, ROUND)), "NoRound", "the error of the round that was sealed");
    equal((await one.keep(ANSWERS, 2)).used, true, "whether the other round is answered");
  });

  for (const [way, error] of [
    ["optOut", "OptedOut"],
    ["wipe", "NoRound"],
  ] as const) {
    await test(`after ${way}() nothing is sent again, also by a call that goes on`, async (name) => {
      const there = shuffler("lost", "lost");
      const other = await device(name, shuffler());
      const post: Post = async (...words) => {
        if (words[0].endsWith("Submit")) await other[way]();
        return there.post(...words);
      };
      const one = await device(name, { post } as Shuffler);
      equal(await thrown(one.submit(ANSWERS, ROUND)), error, "the error");
      equal(there.submitted.length, 1, "tries");
    });
  }

  await test("after a wipe nothing of a submission is left, and its round is not answered twice", async (name) => {
    const there = shuffler();
    const one = await device(name, there);
    await one.submit(ANSWERS, ROUND);
    await one.wipe();
    if (JSON.stringify(await stores(name).read()).includes(there.submitted[0]!.id))
      throw new Error("the id is left");
    equal(await thrown(one.submit(ANSWERS, ROUND)), "NoRound", "the error");
    equal((await one.budget()).rounds, 1, "rounds that were charged");
  });

  await test("a round that is over is forgotten, and a clock that was set back does not answer it", async (name) => {
    const there = shuffler();
    await (await device(name, there)).submit(ANSWERS, ROUND);
    const later = await device(name, there, {}, NOW + 2 * HOUR);
    equal((await later.resend()).receipts, [], "what is sent");
    const task = Object.values((await stores(name).read()).tasks)[0]!;
    equal(
      [task.rounds, task.keys, task.answered, task.expired, task.forgotten],
      [{}, {}, 1, 0, ROUND],
      "what is kept",
    );
    equal(await thrown((await device(name, there)).submit(ANSWERS, ROUND)), "NoRound", "the error");
  });

  await test("a clock that was years ahead lets nothing be drawn a second time", async (name) => {
    const store = stores(name);
    await (await device(name, shuffler())).keep(ANSWERS, ROUND);
    await store.change((state) => {
      const [task] = Object.values(state.tasks);
      Object.assign(task!, { memories: { over_time: { level: 2, kept: 1 } }, memoriesOverAt: NOW + 3 * HOUR });
    });
    await (await device(name, shuffler(), {}, NOW + 9000 * HOUR)).resend();
    const { memories, memoriesOverAt } = Object.values((await store.read()).tasks)[0]!;
    equal([memories, memoriesOverAt], [{ over_time: { erased: 1 } }, undefined], "what is kept");
  });

  await test("what is spent is added up, and a limit is never passed", async (name) => {
    const one = await device(name, shuffler());
    const cost = (await one.preview(ANSWERS, ROUND)).epsilonLocal;
    equal((await one.budget()).epsilonLocal, 0, "what is spent before");
    await one.keep(ANSWERS, ROUND);
    const { rounds, epsilonLocal, epsilonLocalToday } = await one.budget();
    equal([rounds, epsilonLocal, epsilonLocalToday], [1, cost, cost], "what is spent");
    for (const limit of ["epsilonLocalPerDay", "epsilonLocalPerTask", "epsilonPerDay", "epsilonPerTask"]) {
      const limited = await device(name, shuffler(), { [limit]: 1.5 * cost });
      equal(await thrown(limited.keep(ANSWERS, 2)), "OverLimit", `the error of ${limit}`);
      const allowed = await device(name, shuffler(), { [limit]: 100 });
      equal((await allowed.preview(ANSWERS, 2)).notSent, null, `why it is not sent within ${limit}`);
    }
    for (const limit of ["epsilon", "delta", "epsilonLocal"]) {
      const limited = await device(name, shuffler(), { [limit]: 1e-9 });
      equal(await thrown(limited.keep(ANSWERS, 2)), "OverLimit", `the error of ${limit}`);
    }
    equal(
      await thrown(device(name, shuffler(), { epsilonAtAll: 1 } as PrivacyLimits)),
      "RangeError",
      "an unknown limit",
    );
  });

  await test("a preview says what is sent, and stores, sends and spends nothing", async (name) => {
    const there = shuffler();
    const one = await device(name, there);
    const before = JSON.stringify(await stores(name).read());
    const shown = await one.preview(ANSWERS, ROUND);
    equal(
      shown.queries.map((each) => [each.name, each.encoded, each.report.length])[0],
      ["carrier", "Ö", 4],
      "the query",
    );
    equal([JSON.stringify(await stores(name).read()), there.asked], [before, 0], "the state, and calls");
    await one.submit(ANSWERS, ROUND);
    const { id, envelope } = there.submitted[0]!;
    equal(shown.submissionBytes, (id.length + envelope.length) / 2, "the length");
  });

  await test("answers that do not fit are refused, and nothing is drawn", async (name) => {
    const one = await device(name, shuffler());
    for (const wrong of [
      { carrier: "nobody" },
      { carrier: "AA", delay: "5" },
      { carrier: "AA", delay: NaN },
      { delay: 5 },
    ]) {
      equal(await thrown(one.submit(wrong as Answers, ROUND)), "AnswerError", JSON.stringify(wrong));
    }
    equal(await thrown(one.submit({ ...ANSWERS, more: 1 }, ROUND)), "AnswerError", "one more");
    equal(Object.values((await stores(name).read()).tasks), [], "what is stored");
    equal((await one.keep({ carrier: "O\u0308" }, ROUND)).used, true, "an answer in another form of Unicode");
  });

  await test("a question may have the name of what every object inherits", async () => {
    for (const name of ["__proto__", "constructor"]) {
      const content = {
        ...{ kind: "longitudinal", name, weight: 1, strategy: "sampled", periods: 8, changes: 1 },
        ...{ steady_share: 0.5, epsilon_local: null, steady: 1, odds: String(3 * 2 ** 32) },
      };
      const question = readQuestion(content, name, 8) as Longitudinal;
      const randomizer = readRandomizer(content, question, name);
      const query = { name, question, randomizer, symbols: 2, reportBytes: 4, epsilonLocal: 1 };
      const task = { queries: [query], asked: [{ name, places: [0] }] } as unknown as Task;
      let drawn = drawReports(task, {}, 0, {}, systemRandom);
      const first = JSON.stringify(drawn.memories);
      equal(Object.keys(drawn.memories), [name], "the memories");
      equal(/"kept":1/.test(first) && /"level":[0-3]/.test(first), true, "what is drawn once for all rounds");
      drawn = drawReports(task, {}, 1, JSON.parse(first) as Memories, systemRandom);
      const parts = [first, JSON.stringify(drawn.memories)].map((each) => /"level":\d,"kept":\d/.exec(each)![0]);
      equal(parts[1], parts[0], "what is kept in the next round");
    }
  });

  await test("an answer without an end is not read on", async () => {
    const real = globalThis.fetch;
    let [pulled, cancelled] = [0, false];
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled += 1;
        if (pulled > 100) controller.close();
        else controller.enqueue(new Uint8Array(2 ** 20));
      },
      cancel: () => void (cancelled = true),
    });
    try {
      globalThis.fetch = async () => new Response(body);
      equal(await thrown(postByFetch("https://127.0.0.1:1", utf8(""), {}, 1000)), "RangeError", "the error");
      equal([cancelled, pulled < 20], [true, true], `whether it ended, after ${pulled} parts`);
      globalThis.fetch = async () => new Response("a short one");
      const { body: short } = await postByFetch("https://127.0.0.1:1", utf8(""), {}, 1000);
      equal(new TextDecoder().decode(short), "a short one", "an answer that has an end");
    } finally {
      globalThis.fetch = real;
    }
  });

  await test("a browser that forbids storage is told of by StateError", async () => {
    const before = Object.getOwnPropertyDescriptor(globalThis, "indexedDB");
    const forbidden = {
      open: () => {
        throw new DOMException("denied for this document", "SecurityError");
      },
    };
    Object.defineProperty(globalThis, "indexedDB", { configurable: true, writable: true, value: forbidden });
    try {
      equal(await thrown(new IndexedStore("forbidden").read()), "StateError", "the error");
    } finally {
      if (before === undefined) Reflect.deleteProperty(globalThis, "indexedDB");
      else Object.defineProperty(globalThis, "indexedDB", before);
    }
  });

  await test("a state of another version is refused, and stays as it is", async (name) => {
    const store = stores(name);
    await store.change((state) => Object.assign(state, { format: "hubbub-device/2" }));
    equal(await thrown(device(name, shuffler())), "StateError", "the error");
  });

  return results;
}
