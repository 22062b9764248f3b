/** Reads and checks a signed task: its form, both signatures, every value, and its own cap on ε. */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromHex, hex, isSame, own, utf8 } from "../base/bytes.js";
import { canonical, type Json, parseCanonical } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import { SPAN } from "../base/random.js";
import { isSignedBy, publicKey } from "../base/signatures.js";
import { checkTaskLogged, type LogPolicy, readPolicy } from "../log/policy.js";
import * as read from "./fields.js";
import {
  type Digit,
  kindOf,
  membersOf as ofQuestion,
  type Question,
  readQuestion,
  symbolsOf,
} from "./questions.js";
import * as randomizers from "./randomizers.js";
import type { Randomizer } from "./randomizers.js";
import { readSchedule, type Schedule } from "./schedule.js";
import type { Succession } from "./successions.js";
import { connected, Lineage } from "./successions.js";

export const SUITES = ["X25519-HKDF-SHA256-CHACHA20POLY1305", "MLKEM768-X25519"] as const;
export type SuiteName = (typeof SUITES)[number];

const FORMAT = "hubbub-task/1";

/** The law by which each shuffler draws how many reports of each symbol it adds. */
export interface Noise {
  readonly family: "geometric" | "gaussian";
  /** The ratio or the variance, times 2³². */
  readonly parameter: number;
  readonly reach: number;
}

export interface Query {
  readonly name: string;
  readonly question: Question;
  readonly randomizer: Randomizer;
  readonly noise: Noise | null;
  readonly symbols: number;
  readonly reportBytes: number;
  /** What one round of it costs this device, whoever else is dishonest. */
  readonly epsilonLocal: number;
}

/** What a person is asked, and the places of its queries: a number that is asked by digits has several. */
export interface Asked {
  readonly name: string;
  readonly places: readonly number[];
}

export interface Identities {
  readonly operator: Bytes;
  readonly shuffler: Bytes;
  readonly analyzer: Bytes;
  readonly hops: readonly Bytes[];
}

export interface Privacy {
  readonly epsilon: number;
  readonly delta: number;
  readonly epsilonLocal: number;
  readonly epsilonTotal: number | null;
  readonly honestShare: number;
  readonly dummies: number;
}

export type Mode = "enrolled" | "open" | "mtls";

export interface About {
  readonly owner: string | null;
  readonly purpose: string | null;
  readonly results: string | null;
  readonly questions: Readonly<Record<string, string>>;
}

export interface Task {
  /** SHA-256 of the canonical bytes of the task. */
  readonly id: Bytes;
  readonly name: string;
  readonly about: About;
  readonly mode: Mode;
  readonly suite: SuiteName;
  readonly schedule: Schedule;
  readonly minimumReports: number;
  readonly privacy: Privacy;
  readonly queries: readonly Query[];
  readonly asked: readonly Asked[];
  /** The transparency log in which it must be; null if it demands none. */
  readonly log: LogPolicy | null;
  readonly identities: Identities;
  /** The identities that follow those that the task names, or were before them. */
  readonly lineage: Lineage;
}

/** The keys that came with the program, each as PEM, as 64 hex digits or as 32 bytes. */
export interface Pins {
  readonly operator: string | Uint8Array;
  readonly shuffler: string | Uint8Array;
}

/** What a task is checked with, beside the pinned keys. */
export interface Beside {
  /** The successions that are known, in any order. Without them, the task has to name the pinned keys. */
  readonly successions?: readonly Succession[];
  /** The proof that the task is in the transparency log that it demands; not looked at if it demands none. */
  readonly logProof?: string | Uint8Array | null;
}

/** Return the task in a signed task file, if the operator and the shuffler whose keys are pinned signed it.
 *
 * A task that demands a transparency log is refused unless the proof shows that these very bytes are in it. So is a
 * task that exceeds its own cap, or that this device cannot answer. */
export function readTask(document: string | Uint8Array, pins: Pins, beside: Beside = {}): Task {
  const task = readSigned(document, pins, beside);
  checkCap(task);
  if (task.mode === "mtls")
    throw read.refused("admission.mode", "is mtls, which no HTTPS port admits: use a Python device");
  return task;
}

/** Return the task in a signed task file, like `readTask`, whether or not it may be answered. */
export function readSigned(document: string | Uint8Array, pins: Pins, beside: Beside): Task {
  const bytes = bytesOf(document);
  const { content, signatures, identities } = partsOf(bytes);
  const lineage = trusted(identities, pins, beside.successions ?? []);
  checkSignatures(content, signatures, identities);
  const task = readContent(content, identities, lineage);
  const proof = beside.logProof ?? null;
  if (task.log !== null) checkTaskLogged(task.log, task.name, bytes, proof === null ? null : bytesOf(proof));
  return task;
}

/** Return the task in a task file whose signatures are not checked. */
export function readUnsigned(document: Uint8Array): Task {
  const { content, identities } = partsOf(document);
  return readContent(content, identities, Lineage.of(identities, []));
}

function partsOf(document: Uint8Array): {
  content: read.Members;
  signatures: Json | undefined;
  identities: Identities;
} {
  const file = read.object(parseCanonical(document), "the file");
  const content = read.object(file["task"], "task");
  if (content["format"] !== FORMAT) throw formatError(content["format"]);
  read.members(file, "the file", ["signatures", "task"]);
  return { content, signatures: file["signatures"], identities: readIdentities(content["identities"]) };
}

function bytesOf(given: string | Uint8Array): Uint8Array {
  return typeof given === "string" ? utf8(given) : given;
}

export function formatError(format: Json | undefined): DocumentError {
  const named = typeof format === "string" ? JSON.stringify(format.slice(0, 40)) : "no format";
  return new DocumentError(
    "format",
    `the document names ${named}: this version of hubbub-client reads ${FORMAT}`,
  );
}

export function readIdentities(value: Json | undefined): Identities {
  const found = read.members(value, "identities", ["analyzer", "hops", "operator", "shuffler"]);
  const hops = read
    .list(found["hops"], "identities.hops", 0, 7)
    .map((each) => read.key(each, "identities.hops"));
  const [operator, shuffler, analyzer] = ["operator", "shuffler", "analyzer"].map((name) =>
    read.key(found[name], `identities.${name}`),
  ) as [Bytes, Bytes, Bytes];
  const all = [operator, shuffler, analyzer, ...hops].map(hex);
  if (new Set(all).size !== all.length) throw read.refused("identities", "has one key for two parties");
  return { operator, shuffler, analyzer, hops };
}

/** Return the lineage of the task's identities, if the pinned ones belong to it. */
function trusted(identities: Identities, pins: Pins, successions: readonly Succession[]): Lineage {
  const lineage = Lineage.of(identities, connected(identities, successions));
  for (const role of ["operator", "shuffler"] as const) {
    if (!lineage.holds(role, publicKey(pins[role], `the ${role}'s key`))) {
      const remedy = "compare it with the key that came with your program, and ask the operator for the task";
      throw new DocumentError(
        "signature",
        `the task names another ${role} than the one that is trusted here; ${remedy}`,
      );
    }
  }
  return lineage;
}

/** Check that the operator and the shuffler that a task names signed it. */
export function checkSignatures(content: Json, value: Json | undefined, identities: Identities): void {
  const signatures = read.object(value, "signatures");
  const body = canonical(content);
  for (const role of ["operator", "shuffler"] as const) {
    const signature = fromHex(signatures[role], 64);
    if (signature === null || !isSignedBy(FORMAT, body, signature, identities[role])) {
      const remedy = "nothing is sent for it; ask the operator for the signed task";
      throw new DocumentError("signature", `the ${role} has not signed this task; ${remedy}`);
    }
  }
  read.members(signatures, "signatures", ["operator", "shuffler"]);
}

const MEMBERS = [
  "about",
  "admission",
  "format",
  "identities",
  "maximum_reports",
  "minimum_reports",
  "name",
  "privacy",
  "queries",
  "schedule",
  "suite",
];

/** Return the task with this content, which whoever calls this checks to be signed, and to respect its cap. */
export function readContent(content: read.Members, identities: Identities, lineage: Lineage): Task {
  const demands = Object.hasOwn(content, "log");
  read.members(content, "the task", demands ? [...MEMBERS, "log"] : MEMBERS);
  const name = read.taskName(content["name"], "name");
  const schedule = readSchedule(content["schedule"]);
  const minimumReports = read.whole(content["minimum_reports"], "minimum_reports", 2, 1e12);
  read.whole(content["maximum_reports"], "maximum_reports", minimumReports, 1e12);
  const privacy = readPrivacy(content["privacy"], minimumReports);
  const queries = read
    .list(content["queries"], "queries", 1, 64)
    .map((each, place) => readQuery(each, `query[${place}]`, schedule.rounds));
  const asked = askedBy(queries);
  return {
    id: own(sha256(canonical(content))),
    name,
    about: readAbout(content["about"], asked),
    mode: readAdmission(content["admission"], identities),
    suite: read.oneOf(content["suite"], "suite", SUITES),
    schedule,
    minimumReports,
    privacy,
    queries,
    asked,
    log: demands ? readPolicy(content["log"]) : null,
    identities,
    lineage,
  };
}

function readPrivacy(value: Json | undefined, minimum: number): Privacy {
  const names = [
    "delta",
    "dummies",
    "epsilon",
    "epsilon_local",
    "epsilon_total",
    "honest_share",
    "large_delta",
  ];
  const found = read.members(value, "privacy", names);
  const delta = read.double(found["delta"], "privacy.delta", 1e-15, 1);
  if (delta === 1) throw read.refused("privacy.delta", "is not below 1");
  const reason = found["large_delta"];
  if (reason !== null) read.printable(reason, "privacy.large_delta", 1, 300);
  // A double of the product is off by less than this.
  else if (delta * minimum > 0.1 * (1 + 1e-12))
    throw read.refused("privacy.delta", "is large, without a reason");
  const total = found["epsilon_total"];
  return {
    epsilon: read.positive(found["epsilon"], "privacy.epsilon", 100),
    delta,
    epsilonLocal: read.positive(found["epsilon_local"], "privacy.epsilon_local", 100),
    epsilonTotal: total === null ? null : read.positive(total, "privacy.epsilon_total", 1e6),
    honestShare: read.positive(found["honest_share"], "privacy.honest_share", 1),
    dummies: read.whole(found["dummies"], "privacy.dummies", 0, 1e7),
  };
}

function readQuery(value: Json, where: string, rounds: number): Query {
  const content = read.object(value, where);
  const kind = kindOf(content, where);
  const question = readQuestion(content, where, rounds);
  const randomizer = randomizers.readRandomizer(content, question, where);
  const named = Object.hasOwn(content, "noise") ? ["noise"] : [];
  read.members(content, where, [...ofQuestion(kind, false), ...randomizers.membersOf(randomizer), ...named]);
  const noise = named.length > 0 ? readNoise(content["noise"], `${where}.noise`) : null;
  const epsilonLocal = randomizers.epsilonLocal(randomizer, question);
  const allRounds = epsilonLocal * randomizers.paidRounds(randomizer, question, rounds);
  if (
    question.kind === "longitudinal" &&
    question.epsilonLocal !== null &&
    allRounds > question.epsilonLocal * MARGIN
  ) {
    throw read.refused(`${where}.epsilon_local`, `is exceeded: all rounds cost ${allRounds.toPrecision(6)}`);
  }
  const symbols = question.kind === "text" ? randomizerCells(randomizer) : symbolsOf(question);
  return {
    name: question.name,
    question,
    randomizer,
    noise,
    symbols,
    reportBytes: randomizers.reportBytes(randomizer, question),
    epsilonLocal,
  };
}

/** Logarithms and sums of doubles are off by less than this. */
const MARGIN = 1 + 1e-9;

function randomizerCells(randomizer: Randomizer): number {
  return randomizer.mechanism === "hashed" ? randomizer.cells : 0;
}

function readNoise(value: Json | undefined, where: string): Noise {
  const family = read.oneOf(read.object(value, where)["family"], `${where}.family`, [
    "geometric",
    "gaussian",
  ] as const);
  const named = family === "geometric" ? "ratio" : "variance";
  const found = read.members(value, where, ["family", named, "reach"]);
  const pair = read.list(found[named], `${where}.${named}`, 2, 2);
  read.whole(pair[1], `${where}.${named}`, SPAN, SPAN);
  return {
    family,
    parameter: read.whole(pair[0], `${where}.${named}`, 1, Number.MAX_SAFE_INTEGER),
    reach: read.whole(found["reach"], `${where}.reach`, 1, Number.MAX_SAFE_INTEGER),
  };
}

/** Check that the queries of a task respect its own cap on ε_local. */
export function checkCap({ queries, privacy }: Task): void {
  const sum = queries.reduce((so, query) => so + query.epsilonLocal, 0);
  if (sum > privacy.epsilonLocal * MARGIN) {
    const cap = `the cap of ${privacy.epsilonLocal}`;
    throw read.refused(
      "privacy.epsilon_local",
      `is exceeded: the queries add up to ${sum.toPrecision(6)}, above ${cap}`,
    );
  }
}

/** Return what people are asked; a number that is asked by digits has to have all of them, in order. */
function askedBy(queries: readonly Query[]): Asked[] {
  const found: Asked[] = [];
  for (let place = 0; place < queries.length;) {
    const { question } = queries[place]!;
    const places = question.kind === "bit" ? digitsFrom(queries, place, question) : [place];
    found.push({ name: question.kind === "bit" ? question.of : question.name, places });
    place += places.length;
  }
  const names = [...found.map((each) => each.name), ...queries.filter(isDigit).map((query) => query.name)];
  if (new Set(names).size !== names.length) throw read.refused("queries", "has two questions of one name");
  return found;
}

function isDigit(query: Query): boolean {
  return query.question.kind === "bit";
}

function digitsFrom(queries: readonly Query[], first: number, digit: Digit): number[] {
  const places = Array.from({ length: digit.digits }, (_, at) => first + at);
  const wanted = places.map((_, at) => ({ ...digit, digit: at + 1, name: `${digit.of}-bit-${at + 1}` }));
  const given = places.map((place) => queries[place]?.question);
  if (JSON.stringify(wanted) !== JSON.stringify(given))
    throw read.refused(digit.name, "is without its other digits");
  return places;
}

function readAbout(value: Json | undefined, asked: readonly Asked[]): About {
  const found = read.members(value, "about", ["owner", "purpose", "questions", "results"]);
  const text = (name: string): string | null =>
    found[name] === null ? null : read.printable(found[name], `about.${name}`, 1, 500);
  // Without what objects inherit: a question may be named constructor, and be without words.
  const questions = Object.create(null) as Record<string, string>;
  for (const [name, words] of Object.entries(read.object(found["questions"], "about.questions"))) {
    if (!asked.some((each) => each.name === name))
      throw read.refused("about.questions", "is about no question of it");
    questions[name] = read.printable(words, "about.questions", 1, 500);
  }
  return { owner: text("owner"), purpose: text("purpose"), results: text("results"), questions };
}

function readAdmission(value: Json | undefined, identities: Identities): Mode {
  const found = read.members(value, "admission", ["mode", "second_authority"]);
  const mode = read.oneOf(found["mode"], "admission.mode", ["enrolled", "open", "mtls"] as const);
  const second = found["second_authority"];
  if (second !== null) {
    const authority = read.key(second, "admission.second_authority");
    const party = isSame(authority, identities.operator) || isSame(authority, identities.shuffler);
    if (mode !== "enrolled" || party) throw read.refused("admission.second_authority", "is of no use here");
  }
  return mode;
}
