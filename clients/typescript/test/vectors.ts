/** Every vector that is for clients, by its name: the same in Node and in a browser. */

import { fromBase64, fromHex, hex, joined, ownHex, utf8 } from "../src/base/bytes.js";
import { canonical, type Json, parseCanonical } from "../src/base/canonical.js";
import { DocumentError } from "../src/base/errors.js";
import type { Random } from "../src/base/random.js";
import { isSignature, isSignedBy, isWeak } from "../src/base/signatures.js";
import { type Answer, encode, type Memories, randomize } from "../src/queries/encode.js";
import { cipherSuite, LAYER_BYTES, sealSubmission } from "../src/seal/envelope.js";
import { proofOf } from "../src/seal/proofs.js";
import * as read from "../src/task/fields.js";
import { checkKeys } from "../src/task/keys.js";
import { readQuestion, symbolsOf } from "../src/task/questions.js";
import { readRandomizer, reportBytes } from "../src/task/randomizers.js";
import { readSuccession } from "../src/task/successions.js";
import { type Query, readTask, type SuiteName, type Task } from "../src/task/task.js";
import { feeds, loggedEntries } from "./feeds.js";
import { calls, hops, logged, session } from "./sessions.js";

/** Reads a file of tests/vectors. */
export type Load = (name: string) => Promise<Uint8Array<ArrayBuffer>>;
/** A test's name, and what is wrong; null if nothing is. */
export type Result = [string, string | null];

type Any = any;

const KINDS = [
  ...["digits", "distribution", "grouped", "hashed", "noise", "text", "top", "variance"],
  ...["longitudinal-direct", "longitudinal-sampled", "longitudinal-tree", "longitudinal-vector"],
];

function equal(found: unknown, wanted: unknown, what: string): void {
  const texts = [found, wanted].map((each) => JSON.stringify(each));
  if (texts[0] !== texts[1])
    throw new Error(`${what} is ${texts[0]!.slice(0, 200)}, not ${texts[1]!.slice(0, 200)}`);
}

async function json(load: Load, name: string): Promise<Any> {
  return JSON.parse(new TextDecoder().decode(await load(name)));
}

/** Run everything; each vector is a result of its own. */
export async function run(load: Load): Promise<Result[]> {
  const results: Result[] = [];
  const test = async (name: string, body: () => unknown): Promise<void> => {
    try {
      await body();
      results.push([name, null]);
    } catch (error) {
      results.push([name, error instanceof Error ? `${error.name}: ${error.message}` : String(error)]);
    }
  };
  await canonicalForm(test, await json(load, "rfc8785.json"));
  await hpke(test, await json(load, "rfc9180.json"), await json(load, "hpke-pq.json"));
  await envelopes(test, await json(load, "sealed.json"));
  await signatures(test, await json(load, "signatures.json"));
  await proofs(test, await json(load, "enrollment.json"));
  await refusals(test, await json(load, "refused.json"));
  await logged(test, await json(load, "logged.json"));
  await loggedEntries(test, await json(load, "logged.json"));
  await feeds(test, await json(load, "feeds.json"));
  await answers(test, await json(load, "answers.json"));
  await documents(test, load);
  await hops(test, await json(load, "hops.json"));
  await calls(test, await json(load, "calls.json"));
  await session(test, await json(load, "session.json"));
  return results;
}

type Test = (name: string, body: () => unknown) => Promise<void>;

async function canonicalForm(test: Test, vectors: Any): Promise<void> {
  for (const { bits, text } of vectors.numbers) {
    await test(`rfc8785: the double ${bits}`, () => {
      const view = new DataView(ownHex(bits).buffer);
      const written = (): string => new TextDecoder().decode(canonical(view.getFloat64(0)));
      if (text !== undefined) return equal(written(), text, "its text");
      try {
        written();
      } catch (error) {
        if (error instanceof DocumentError) return;
      }
      throw new Error("it has a text");
    });
  }
  for (const { what, input, canonical: wanted } of vectors.documents) {
    await test(`rfc8785: ${what}`, () => {
      equal(hex(canonical(JSON.parse(input) as Json)), wanted, "the canonical form");
      equal(hex(canonical(parseCanonical(ownHex(wanted)))), wanted, "the canonical form of what it says");
    });
  }
}

async function hpke(test: Test, rfc: Any, pq: Any): Promise<void> {
  const own = rfc.vectors.find((each: Any) => each.aead === "ChaCha20Poly1305");
  const cases: [SuiteName, Any, string][] = [
    ["X25519-HKDF-SHA256-CHACHA20POLY1305", own, own.info],
    ["MLKEM768-X25519", pq, pq.info],
  ];
  for (const [name, vector, info] of cases) {
    await test(`hpke: ${name}`, async () => {
      const suite = cipherSuite(name);
      const recipientKey = await suite.kem.importKey("raw", ownHex(vector.skRm).buffer, false);
      const context = { recipientKey, enc: ownHex(vector.enc), info: ownHex(info) };
      const opened = await suite.open(context, ownHex(vector.ct), ownHex(vector.aad));
      equal(hex(new Uint8Array(opened)), vector.pt, "what was sealed");
    });
  }
}

function destinationOf(to: Any): {
  taskId: Uint8Array<ArrayBuffer>;
  round: number;
  keySetHash: Uint8Array<ArrayBuffer>;
} {
  return { taskId: ownHex(to.task_id), round: to.round, keySetHash: ownHex(to.key_set_hash) };
}

/** Seal the reports of sealed.json for its keys in a suite. */
export async function sealVector(vectors: Any, suite: SuiteName): Promise<Uint8Array<ArrayBuffer>> {
  const { taskId, round, keySetHash } = destinationOf(vectors.destination);
  const keys = vectors.sealed.find((each: Any) => each.suite === suite);
  const task = { suite, id: taskId, identities: { hops: [] } } as unknown as Task;
  const to = {
    round,
    hash: keySetHash,
    shuffler: ownHex(keys.shuffler.public),
    analyzer: ownHex(keys.analyzer.public),
    hops: [],
    successions: [],
  };
  return sealSubmission(task, to, vectors.reports.map(ownHex), ownHex(vectors.submission_id));
}

async function envelopes(test: Test, vectors: Any): Promise<void> {
  const to = vectors.destination;
  const destination = joined(
    ownHex(to.task_id),
    new Uint8Array([0, 0, 0, to.round]),
    ownHex(to.key_set_hash),
  );
  for (const one of vectors.sealed) {
    const name = one.suite as SuiteName;
    const layer = LAYER_BYTES[name];
    await test(`sealed: the length of a submission in ${name}`, async () => {
      const length = vectors.reports.reduce(
        (sum: number, each: string) => sum + each.length / 2 + layer,
        layer,
      );
      equal((await sealVector(vectors, name)).length, length, "the envelope's length");
      equal(one.outer.length / 2, length, "the vector's length");
    });
    // X-Wing's libraries take a seed of 32 bytes, and the file has 96: tests/web opens that suite by Python.
    if (name === "MLKEM768-X25519") continue;
    for (const [what, outer] of [
      ["the vector", ownHex(one.outer)],
      ["our own", await sealVector(vectors, name)],
    ] as const) {
      await test(`sealed: ${what} in ${name} opens`, async () => {
        const open = async (secret: string, info: Uint8Array, sealed: Uint8Array): Promise<Uint8Array> => {
          const suite = cipherSuite(name);
          const recipientKey = await suite.kem.importKey("raw", ownHex(secret).buffer, false);
          const context = { recipientKey, enc: sealed.slice(0, 32), info: new Uint8Array(info) };
          return new Uint8Array(await suite.open(context, sealed.slice(32)));
        };
        const info = joined(utf8("hubbub/v1 shuffler"), destination, ownHex(vectors.submission_id));
        let inners = await open(one.shuffler.private, info, outer);
        for (const [query, report] of vectors.reports.entries()) {
          const length = report.length / 2 + layer;
          const inside = joined(utf8("hubbub/v1 analyzer"), destination, new Uint8Array([0, 0, 0, query]));
          equal(hex(await open(one.analyzer.private, inside, inners.slice(0, length))), report, "a report");
          inners = inners.slice(length);
        }
        equal(inners.length, 0, "what is left");
      });
    }
  }
}

async function signatures(test: Test, vectors: Any): Promise<void> {
  for (const each of vectors.cases) {
    await test(`signatures: ${each.what}`, () => {
      const [key, signature, message] = [each.key, each.signature, vectors.message].map(ownHex);
      const found = [isWeak(key!), isSignature(signature!, message!, key!)];
      equal(found, [each.weak, each.right], "whether the key is weak, and the signature right");
      const one = () => isSignedBy(vectors.label, utf8(vectors.body), signature!, key!);
      equal(one(), each.right, "whether it is right under its label");
      equal(
        because(() => read.key(each.key, "a key")),
        each.weak ? "value" : null,
        "the reason",
      );
    });
  }
}

async function proofs(test: Test, vectors: Any): Promise<void> {
  const keys = new Map<string, string>(vectors.credentials.map((each: Any) => [each.id, each.key]));
  const made = (of: Any, destination: Any, submission: Any): string => {
    const credential = { id: ownHex(of.credential), key: ownHex(keys.get(of.credential)!) };
    const id = ownHex(submission.submission_id);
    return hex(proofOf(credential, destinationOf(destination), id, ownHex(submission.envelope)));
  };
  for (const each of vectors.proofs) {
    await test(`enrollment: the proof of ${each.credential.slice(0, 40)}`, () =>
      equal(made(each, vectors.destination, vectors.submission), each.proof, "the proof"));
  }
  for (const each of vectors.wrong_for) {
    await test(`enrollment: a proof is not for ${each.why}`, () => {
      if (made(each, each.destination, each.submission) === each.proof) throw new Error("it is the same");
    });
  }
}

/** Return the one thing that is wrong with a document, by what a reader throws. */
function because(reading: () => unknown): string | null {
  try {
    reading();
    return null;
  } catch (error) {
    if (error instanceof DocumentError) return error.because;
    throw error;
  }
}

async function refusals(test: Test, vectors: Any): Promise<void> {
  const pins = { operator: vectors.keys.operator, shuffler: vectors.keys.shuffler };
  for (const each of vectors.tasks) {
    await test(`refused: a task, ${each.what}`, () =>
      equal(
        because(() => readTask(fromBase64(each.document), pins)),
        each.because,
        "the reason",
      ));
  }
  const task = readTask(fromBase64(vectors.tasks[0].document), pins);
  const { round, now, sets } = vectors.round_keys;
  for (const each of sets) {
    await test(`refused: keys, ${each.what}`, () => {
      const signed = (one: Any) => ({ body: fromBase64(one.body), signature: ownHex(one.signature) });
      const successions = each.successions.map(fromBase64);
      const keys = { shuffler: signed(each.shuffler), analyzer: signed(each.analyzer), successions };
      equal(
        because(() => checkKeys(task, round, keys, now)),
        each.because,
        "the reason",
      );
    });
  }
}

/** Returns bytes that were recorded; all of them must be drawn. */
class Recorded {
  private left: string;

  constructor(text: string) {
    this.left = text;
  }

  readonly random: Random = (count) => {
    if (this.left.length < 2 * count) throw new Error("more is drawn than the vector has");
    const drawn = fromHex(this.left.slice(0, 2 * count))!;
    this.left = this.left.slice(2 * count);
    return drawn;
  };

  end(): void {
    equal(this.left, "", "what was not drawn");
  }
}

function queryOf(content: Any, rounds: number): Query {
  const question = readQuestion(content, "the query", rounds);
  const randomizer = readRandomizer(content, question, "the query");
  const symbols = question.kind === "text" ? 0 : symbolsOf(question);
  return {
    name: question.name,
    question,
    randomizer,
    noise: null,
    symbols,
    reportBytes: reportBytes(randomizer, question),
    epsilonLocal: 1,
  };
}

async function answers(test: Test, cases: Any[]): Promise<void> {
  for (const [place, { queries: contents, vectors }] of cases.entries()) {
    const first = contents[0];
    const how = first.mechanism ?? `${first.strategy} of ${first.changes} changes`;
    const what = `answers ${place}: ${first.kind}, ${how}`;
    const queries: Query[] = contents.map((each: Any) => queryOf(each, first.periods ?? 100));
    const streams: Any[][] = Array.isArray(vectors[0]) ? vectors : vectors.map((each: Any) => [each]);
    for (const [device, rounds] of streams.entries()) {
      await test(`${what}, ${device}`, () => {
        let memories: Memories = {};
        for (const one of rounds) memories = { ...memories, ...answered(queries, one, memories) };
      });
    }
  }
}

function answered(queries: Query[], one: Any, memories: Memories): Memories {
  const asked = { name: queries[0]!.name, places: queries.map((_, place) => place) };
  const drawn = new Recorded(one.random.symbol);
  const { symbols, memory } = encode(
    { queries },
    asked,
    one.answer as Answer,
    one.round,
    memories,
    drawn.random,
  );
  drawn.end();
  equal(symbols.map(String), one.symbols.map(String), "the symbols");
  for (const [place, query] of queries.entries()) {
    const bytes = new Recorded(one.random.reports[place]);
    equal(hex(randomize(query, symbols[place]!, bytes.random)), one.reports[place], "the report");
    bytes.end();
  }
  return memory === undefined ? {} : { [asked.name]: memory };
}

async function documents(test: Test, load: Load): Promise<void> {
  await test("signed: the task, and the succession of its shuffler", async () => {
    const document = await load("signed/hubbub-task-1.json");
    const succession = readSuccession(await load("signed/hubbub-succession-1.json"));
    const { identities } = (parseCanonical(document) as Any).task;
    const pins = { operator: identities.operator, shuffler: succession.new };
    const task = readTask(document, pins, { successions: [succession] });
    const key = parseCanonical(await load("signed/hubbub-key-1.json")) as Any;
    equal(key.body.task, hex(task.id), "the key record's task");
    equal(because(() => readTask(document, pins)), "signature", "the reason, without the succession");
  });
  for (const kind of KINDS) {
    await test(`kinds: the task of ${kind}`, async () => {
      const document = await load(`kinds/${kind}/task.json`);
      const { identities } = (parseCanonical(document) as Any).task;
      const task = readTask(document, identities);
      if (task.privacy.epsilonLocal <= 0 || task.queries.some((query) => query.epsilonLocal <= 0)) {
        throw new Error("it costs nothing");
      }
    });
  }
}
