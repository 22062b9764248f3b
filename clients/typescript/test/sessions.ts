/** Vectors of hops, of calls, of a session from a task to its receipt, and of tasks that must be in a log. */

import { type DescMessage, fromBinary, toBinary, toJson } from "@bufbuild/protobuf";

import { fourBytes, fromBase64, hex, joined, ownHex, utf8 } from "../src/base/bytes.js";
import { DocumentError, Refusal, Unreachable } from "../src/base/errors.js";
import { type Random, systemRandom } from "../src/base/random.js";
import { Calls, OVER, TRANSIENT } from "../src/calls/calls.js";
import {
  EnrollRequestSchema,
  EnrollResponseSchema,
  GetFeedRequestSchema,
  GetFeedResponseSchema,
  GetRoundRequestSchema,
  GetRoundResponseSchema,
  SubmitRequestSchema,
  SubmitResponseSchema,
} from "../src/gen/hubbub/protos/v1/submission_pb.js";
import { Device, type DeviceState, type Post, readTask, type Store } from "../src/index.js";
import { cipherSuite, LAYER_BYTES } from "../src/seal/envelope.js";
import { emptyState } from "../src/state/state.js";
import { checkKeys } from "../src/task/keys.js";
import { Lineage } from "../src/task/successions.js";
import type { Identities, Task } from "../src/task/task.js";

type Any = any;
type Test = (name: string, body: () => unknown) => Promise<void>;

export function equal(found: unknown, wanted: unknown, what: string): void {
  const texts = [found, wanted].map((each) => JSON.stringify(each));
  if (texts[0] !== texts[1]) throw new Error(`${what}: ${texts[0]}, not ${texts[1]}`);
}

/** Keys of a round behind hops: those to take, and those to refuse. */
export async function hops(test: Test, vectors: Any): Promise<void> {
  const { operator, shuffler, analyzer, hops: behind } = vectors.keys;
  const identities: Identities = {
    operator: ownHex(operator),
    shuffler: ownHex(shuffler),
    analyzer: ownHex(analyzer),
    hops: behind.map(ownHex),
  };
  const { task: id, suite, round, now, sets } = vectors.round_keys;
  const schedule = { start: now - 3600 * round, length: 3600, grace: 60, rounds: 3 };
  const task = {
    id: ownHex(id),
    suite,
    schedule,
    identities,
    lineage: Lineage.of(identities, []),
  } as unknown as Task;
  for (const each of sets) {
    await test(`hops: keys, ${each.what}`, () => {
      const signed = (one: Any) => ({ body: fromBase64(one.body), signature: ownHex(one.signature) });
      const keys = { shuffler: signed(each.shuffler), analyzer: signed(each.analyzer), successions: [] };
      try {
        const checked = checkKeys(task, round, keys, now);
        equal([each.because, checked.hops.length], [null, behind.length], "the reason, and hops");
      } catch (error) {
        if (!(error instanceof DocumentError) || each.because === null) throw error;
        // Another number of hops is noticed here by the first signature that is another party's.
        const known = each.because === "hops" ? ["signature", "value"] : [each.because];
        if (!known.includes(error.because)) throw error;
      }
    });
  }
}

/** Messages as protobuf and as JSON, and what each refusal asks of a device. */
export async function calls(test: Test, vectors: Any): Promise<void> {
  for (const { call, is, proto, json } of vectors.messages) {
    await test(`calls: the ${is} of ${call}, ${proto.slice(0, 60)}`, () => {
      const schema = SCHEMAS.get(`${call} ${is}`);
      // A call that this client has not.
      if (schema === undefined) return equal(call, "SubmitBatch", "what is not known");
      const message = fromBinary(schema, ownHex(proto));
      equal(hex(toBinary(schema, message)), proto, "the message, written again");
      equal(sorted(toJson(schema, message)), sorted(json), "the message in JSON");
    });
  }
  const cases = [
    ...vectors.refusals,
    ...vectors.without_reason.map((each: Any) => ({ headers: {}, body: "", ...each })),
  ];
  for (const { reason, duty, status, headers, body, part } of cases) {
    await test(`calls: ${reason ?? "no reason"} with status ${status}`, async () => {
      const answer = { status, header: (name: string) => headers[name] ?? null, body: utf8(body) };
      const there = new Calls("https://127.0.0.1:1", async () => answer);
      equal(dutyOf(await failure(there.getRound(new Uint8Array(32), 0, 1000))), duty, "the duty");
      if (part === undefined) return;
      const answers = joined(new Uint8Array([10, part.length / 2]), ownHex(part));
      const enrolled = new Calls("https://127.0.0.1:1", async () => ({
        status: 200,
        header: () => null,
        body: answers,
      }));
      equal(
        dutyOf(await failure(enrolled.enroll(utf8("a ticket"), new Uint8Array(32), 1000))),
        duty,
        "a part's duty",
      );
    });
  }
}

const SCHEMAS = new Map<string, DescMessage>([
  ["GetRound request", GetRoundRequestSchema],
  ["GetRound response", GetRoundResponseSchema],
  ["Enroll request", EnrollRequestSchema],
  ["Enroll response", EnrollResponseSchema],
  ["Submit request", SubmitRequestSchema],
  ["Submit response", SubmitResponseSchema],
  ["GetFeed request", GetFeedRequestSchema],
  ["GetFeed response", GetFeedResponseSchema],
]);

/** Return JSON with its members in one order. */
function sorted(value: Any): Any {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => error,
  );
}

/** Return what a device does about an error: what its code asks of it, in the words of the vectors. */
function dutyOf(error: unknown): string {
  if (error instanceof Unreachable) return "again";
  if (!(error instanceof Refusal)) return "nothing";
  if (TRANSIENT.has(error.reason)) return "again";
  if (OVER.has(error.reason)) return "discard";
  // All of these are kept; what differs is what the application does before it sends them again.
  const ticket = [
    "credential_expired",
    "revoked",
    "not_countersigned",
    "bad_ticket",
    "ticket_expired",
    "ticket_redeemed",
  ];
  if (ticket.includes(error.reason)) return "ticket";
  return { not_enrolled: "redeem", too_early: "wait" }[error.reason] ?? "stop";
}

/** A store that forgets everything with the page. */
function inMemory(): Store {
  const state: DeviceState = emptyState();
  return {
    read: async () => structuredClone(state),
    change: async (change) => change(state),
    close: () => undefined,
  };
}

/** Play a whole session with the bytes that it drew; only HPKE draws by itself. */
export async function session(test: Test, vectors: Any): Promise<void> {
  await test("session: every call, from the task to the receipt", async () => {
    let drawn: string = vectors.random.reports + vectors.random.submission_id + vectors.random.device_key;
    const random: Random = (count) => {
      if (drawn === "") return systemRandom(count);
      const found = ownHex(drawn.slice(0, 2 * count));
      drawn = drawn.slice(2 * count);
      return found;
    };
    const exchanges = [...vectors.exchanges];
    const submitted: string[] = [];
    const post: Post = async (url, body) => {
      const each = exchanges.shift();
      equal(url.split("/").at(-1), each.call, "the call");
      if (each.call === "Submit") submitted.push(hex(body));
      else equal(hex(body), each.request, "the request");
      equal(body.length, each.request.length / 2, "the request's length");
      return { status: each.status, header: (name) => each.headers[name] ?? null, body: ownHex(each.body) };
    };
    const options = {
      task: fromBase64(vectors.task),
      operatorKey: vectors.operator_key as string,
      shufflerKey: vectors.shuffler_key as string,
      shuffler: "https://127.0.0.1:7308",
      ticket: vectors.ticket as string,
    };
    const around = {
      store: inMemory(),
      post,
      random,
      clock: () => vectors.now,
      sleep: async () => undefined,
    };
    const device = await Device.open(options, around);
    equal(
      await device.submit(vectors.answers),
      { round: vectors.then.round, used: true, sent: true },
      "the receipt",
    );
    equal(
      [drawn, exchanges.length, new Set(submitted).size],
      ["", 0, 1],
      "what is left, and different submissions",
    );
    const { submission } = fromBinary(SubmitRequestSchema, ownHex(submitted[0]!));
    equal(hex(submission!.id), vectors.random.submission_id, "the id");
    equal(
      await opened(device.task, vectors, submission!.id, submission!.envelope),
      vectors.then.reports,
      "the reports",
    );
  });
}

/** Return the reports in an envelope, opened by the shuffler, the hop and the analyzer. */
async function opened(task: Task, vectors: Any, id: Uint8Array, envelope: Uint8Array): Promise<string[]> {
  const { then, private: secrets } = vectors;
  const to = joined(task.id, fourBytes(then.round), ownHex(then.key_set_hash));
  const open = async (role: string, info: Uint8Array, sealed: Uint8Array): Promise<Uint8Array> => {
    const suite = cipherSuite(task.suite);
    const recipientKey = await suite.kem.importKey("raw", ownHex(secrets[role]).buffer, false);
    const context = { recipientKey, enc: sealed.slice(0, 32), info: new Uint8Array(info) };
    return new Uint8Array(await suite.open(context, sealed.slice(32)));
  };
  let inners = await open("shuffler", joined(utf8("hubbub/v1 shuffler"), to, id), envelope);
  const reports: string[] = [];
  for (const [place, query] of task.queries.entries()) {
    const length = query.reportBytes + 2 * LAYER_BYTES[task.suite];
    const index = fourBytes(place);
    const behind = joined(utf8("hubbub/v1 hop"), fourBytes(2), to, index);
    const inner = await open("hop-2", behind, inners.slice(0, length));
    reports.push(hex(await open("analyzer", joined(utf8("hubbub/v1 analyzer"), to, index), inner)));
    inners = inners.slice(length);
  }
  return reports;
}

/** Tasks that demand a transparency log: those to take, and those to refuse before anything is done. */
export async function logged(test: Test, vectors: Any): Promise<void> {
  const never = (): never => {
    throw new Error("the device did something before the proof was checked");
  };
  // What is stored is read before: successions are in it.
  const store: Store = { read: async () => emptyState(), change: never, close: () => undefined };
  const [operatorKey, shufflerKey] = [vectors.operator_key as string, vectors.shuffler_key as string];
  const pins = { operator: operatorKey, shuffler: shufflerKey };
  for (const each of vectors.cases) {
    const task = fromBase64(each.task);
    const logProof = each.proof === null ? null : fromBase64(each.proof);
    await test(`logged: ${each.what}`, async () => {
      const because = await reason(() => readTask(task, pins, { logProof }));
      equal(because, each.because, "the reason");
      const options = { task, operatorKey, shufflerKey, logProof, shuffler: "https://127.0.0.1:1" };
      const opened = await reason(() => Device.open(options, { store, post: never, random: never }));
      equal(opened, each.because, "the reason of the device");
    });
  }
}

export async function reason(read: () => unknown): Promise<string | null> {
  try {
    await read();
    return null;
  } catch (error) {
    if (error instanceof DocumentError) return error.because;
    throw error;
  }
}
