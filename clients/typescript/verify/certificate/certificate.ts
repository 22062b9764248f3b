/** Checks a certificate alone: its form, its task, who signed it, its records, its history and its numbers. */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromHex, hex, isSame } from "../../src/base/bytes.js";
import { canonical, type Json } from "../../src/base/canonical.js";
import { DocumentError } from "../../src/base/errors.js";
import { isSignedBy } from "../../src/base/signatures.js";
import { preparedFrom } from "../../src/task/schedule.js";
import { connected, Lineage, readSuccession, type Succession } from "../../src/task/successions.js";
import {
  checkCap,
  checkSignatures,
  formatError,
  type Identities,
  readContent,
  readIdentities,
  type Task,
} from "../../src/task/task.js";
import { Refused, shown } from "../base/refused.js";
import { isMembers, plain, readStrict, type Value } from "../base/strict.js";
import { checkRoundLogged, type LoggedRound, type LogProofs } from "../log.js";
import { addedWithin, checkNoise } from "./added.js";
import {
  addedTo,
  attested,
  type BatchRecord,
  fingerprint,
  FIRST_HOP,
  isCount,
  isObject,
  leftOutByHops,
  type Members,
  namesOf,
  readRecord,
  type Release,
  roundNamed,
  signedIn,
} from "./records.js";
import { checkStatement, type Statement } from "./statement.js";
import { admissionOf } from "./words.js";

const FORMAT = "hubbub-certificate/1";
const MEMBERS =
  "admission,all_rounds,batches,counts_digest,delta,format,honest_share,ladder,queries,releases,round,round_total," +
  "successions,task,uncounted";
const ROLES = ["operator", "shuffler", "analyzer"] as const;
const MOST_REPORTS = 1e12;

/** The keys that are known from elsewhere, 32 bytes each; what is left out is shown for people to compare. */
export interface Pins {
  readonly operator?: Uint8Array;
  readonly shuffler?: Uint8Array;
  readonly analyzer?: Uint8Array;
  /** The keys of all further shufflers, in order; an empty list says that there are none. */
  readonly hops?: readonly Uint8Array[];
  /** The id of the task that a certificate must be of. */
  readonly task?: Uint8Array;
  /** Documents of successions that lead from a pinned key to those before and after it. */
  readonly successions?: readonly Uint8Array[];
}

export interface Signer {
  readonly name: string;
  readonly fingerprint: string;
  readonly pinned: boolean;
}

/** A certificate that was not refused, with what was computed of it. */
export interface Certificate {
  readonly document: Bytes;
  readonly task: Task;
  /** The queries of the task as JSON. */
  readonly raw: readonly Members[];
  readonly body: Members;
  readonly round: number;
  readonly statement: Statement;
  readonly signers: readonly Signer[];
  readonly successions: readonly Succession[];
  readonly releases: readonly Release[];
  /** The release of its own round. */
  readonly release: Release;
  readonly uncounted: readonly number[];
  /** Where it and its task are in the transparency log that the task demands; null if it demands none. */
  readonly logged: LoggedRound | null;
}

/** Whether JSON is no certificate at all, but something else. */
export function otherThanCertificate(value: Value): boolean {
  return !isMembers(value) || !("body" in value) || !("signature" in value);
}

/** Return what was found of a certificate; throw a Refused or a DocumentError for the first thing that is wrong.
 *
 * If its task demands a transparency log, `proofs` must show that both are in it. */
export function checkCertificate(
  document: Bytes,
  pins: Pins,
  known: readonly Succession[],
  proofs: LogProofs,
): Certificate {
  const value = plain(readStrict(document));
  if (!isObject(value) || !Object.hasOwn(value, "body") || !Object.hasOwn(value, "signature"))
    throw new Refused(
      "kind",
      "it is no certificate of a round; `hubbub results --certificate FILE` saves one",
    );
  const body = value["body"];
  if (!isObject(body) || body["format"] !== FORMAT) {
    const named = isObject(body) ? shown(body["format"]) : "nothing";
    throw new Refused("format", `it names the format ${named}: ${FORMAT} is read here`);
  }
  if (!isSame(canonical(value), document))
    throw new Refused(
      "canonical",
      "it is not in canonical form (RFC 8785); use the bytes as they were written",
    );
  const names = namesOf(body).replace(",horizon", "");
  if (names !== MEMBERS) throw new Refused("form", `it does not have exactly the members of ${FORMAT}`);
  const found = checkBody(document, body, signedIn(value), pins, known);
  const { log } = found.task;
  // Last: what is wrong in itself is told first.
  if (log === null) return found;
  return { ...found, logged: checkRoundLogged(log, document, canonical(body["task"]!), proofs) };
}

function checkBody(
  document: Bytes,
  body: Members,
  signed: ReturnType<typeof signedIn>,
  pins: Pins,
  known: readonly Succession[],
): Certificate {
  const round = body["round"];
  if (!isCount(round)) throw new Refused("form", `its round is ${shown(round)}, which is no whole number`);
  const { task, raw } = readTaskIn(body, pins, known);
  const of = signersOf(task, round);
  if (!isSignedBy(FORMAT, signed.body, signed.signature, of.analyzer)) {
    const who = fingerprint(of.analyzer);
    throw new Refused(
      "signature",
      `its signature is not by ${who}, the analyzer's: it was changed, or is forged`,
    );
  }
  const records = readRecords(task, body, round);
  if (deepEqual(body["admission"]!, admissionOf(task)) === false)
    throw new Refused("words", `its admission is not the statement for the mode ${task.mode}`);
  const releases = attested(task, body["releases"], records);
  const uncounted = readUncounted(body["uncounted"], releases);
  const statement = checkStatement(task, raw, body, uncounted);
  if (fromHex(body["counts_digest"], 32) === null)
    throw new Refused("form", "counts_digest must be 64 lower-case hex digits");
  checkHops(task, body, records);
  checkHistory(task, body, releases, uncounted);
  const hashes = records.map((record) => record.hash);
  const release = { round, reports: records[0]!.reports, dummies: task.privacy.dummies, records: hashes };
  const signers = shownSigners(task, of, pins);
  const { successions } = task.lineage;
  return {
    ...{ document, task, raw, body, round, statement, signers, successions, releases, release, uncounted },
    logged: null,
  };
}

function deepEqual(one: Json, other: Json): boolean {
  return isSame(canonical(one), canonical(other));
}

/** Return the task in a certificate: its form, its signatures, and that its parties are the pinned ones. */
function readTaskIn(
  body: Members,
  pins: Pins,
  known: readonly Succession[],
): { task: Task; raw: readonly Members[] } {
  const file = body["task"];
  if (!isObject(file) || namesOf(file) !== "signatures,task" || !isObject(file["task"]))
    throw new Refused("task", "its task is no signed task");
  const content = file["task"];
  if (content["format"] !== "hubbub-task/1") throw formatError(content["format"]);
  const identities = readIdentities(content["identities"]);
  const inside = body["successions"];
  if (!Array.isArray(inside)) throw new Refused("form", "its successions are no list");
  const given = [...inside.map((each) => readSuccession(canonical(each))), ...known];
  const outside = connected(identities, (pins.successions ?? []).map(readSuccession));
  const lineage = Lineage.of(identities, [...given, ...outside]);
  const task = readContent(content, identities, lineage);
  checkCap(task);
  checkPins(task, pins);
  checkSignatures(content, file["signatures"], identities);
  checkNoise(task);
  return { task, raw: content["queries"] as unknown as Members[] };
}

function checkPins(task: Task, pins: Pins): void {
  const unchecked = "nothing else of it was checked";
  if (pins.task !== undefined && !isSame(pins.task, task.id))
    throw new Refused(
      "pin",
      `it is of task ${task.name}, ${hex(task.id)}, not of the task that was given; ${unchecked}`,
    );
  for (const role of ROLES) {
    const pinned = pins[role];
    if (pinned === undefined || task.lineage.holds(role, pinned)) continue;
    const named = fingerprint(task.identities[role]);
    const words = `it names ${named} as the ${role}, not ${fingerprint(pinned)}, which was given`;
    throw new Refused("pin", `${words}; ask the ${role}'s party for its key, and compare; ${unchecked}`);
  }
  const { hops } = task.identities;
  if (pins.hops === undefined) return;
  if (pins.hops.length !== hops.length || pins.hops.some((each, place) => !isSame(each, hops[place]!)))
    throw new Refused("pin", `its further shufflers are not those that were given; ${unchecked}`);
}

/** Return the identities that sign everything of a round: those in force when its keys may first be made. */
function signersOf(task: Task, round: number): Identities {
  const moment = preparedFrom(task.schedule, round);
  const at = (role: (typeof ROLES)[number]): Bytes => task.lineage.at(role, task.identities[role], moment);
  const [operator, shuffler, analyzer] = ROLES.map(at) as [Bytes, Bytes, Bytes];
  return { operator, shuffler, analyzer, hops: task.identities.hops };
}

function shownSigners(task: Task, of: Identities, pins: Pins): Signer[] {
  const core = ROLES.map((name) => ({
    name,
    fingerprint: fingerprint(name === "operator" ? task.identities.operator : of[name]),
    pinned: pins[name] !== undefined,
  }));
  const hops = of.hops.map((key, place) => ({
    name: `hop-${place + FIRST_HOP}`,
    fingerprint: fingerprint(key),
    pinned: pins.hops !== undefined,
  }));
  return [...core, ...hops];
}

function readRecords(task: Task, body: Members, round: number): BatchRecord[] {
  const { batches, queries } = body;
  const wanted = task.queries.length;
  if (
    !Array.isArray(batches) ||
    !Array.isArray(queries) ||
    batches.length !== wanted ||
    queries.length !== wanted
  )
    throw new Refused(
      "form",
      `it must have one batch record and one statement for each of ${wanted} queries`,
    );
  const records = batches.map((each, place) => {
    const document = signedIn(each);
    const of = signersOf(task, roundNamed(document));
    const record = readRecord(document, of.shuffler, of.hops);
    checkRecord(task, round, record, place, queries[place]!);
    return record;
  });
  if (new Set(records.map((record) => record.ofRound)).size !== 1)
    throw new Refused("record", "its batch records differ in the round's key set, closing or refusals");
  return records;
}

function checkRecord(task: Task, round: number, record: BatchRecord, place: number, stated: Json): void {
  const { name } = task.queries[place]!;
  const wrong = (what: string): Refused => new Refused("record", `${name}: ${what}`);
  if (record.task !== hex(task.id) || record.round !== round || record.query !== place)
    throw wrong("its batch record is of another task, round or query");
  if (!isObject(stated) || stated["reports"] !== record.reports)
    throw wrong(`the stated reports are not the ${record.reports} that the shuffler's record attests`);
  checkAdded(task, place, record.dummies, 1);
  for (const hop of record.hops) checkAdded(task, place, hop.dummies, hop.position);
  if (stated["dummies"] !== addedTo(record))
    throw wrong(`the stated dummies are not the ${addedTo(record)} that the shufflers' records attest`);
  if (record.admission !== task.mode) throw wrong(`admission was not ${task.mode} by the shuffler's record`);
  if (record.reports < task.minimumReports)
    throw wrong(`${record.reports} reports were released, fewer than ${task.minimumReports}`);
  if (record.reports > MOST_REPORTS || round >= task.schedule.rounds)
    throw wrong(`round ${round} is none of the task's ${task.schedule.rounds} rounds`);
}

/** Check that a shuffler can have added so many reports to a batch. */
function checkAdded(task: Task, place: number, dummies: number, position: number): void {
  const query = task.queries[place]!;
  const [least, most] = addedWithin(task, query, position);
  if (dummies >= least && dummies <= most) return;
  const words = `shuffler ${position} added ${dummies} reports; it adds from ${least} to ${most}`;
  throw new Refused("record", `${query.name}: ${words}`);
}

function readUncounted(value: Json | undefined, releases: readonly Release[]): number[] {
  const wrong = new Refused(
    "history",
    "uncounted must list rounds that were released before, in their order",
  );
  if (!Array.isArray(value) || value.some((each) => !isCount(each))) throw wrong;
  const named = new Set(value);
  const wanted = releases.map((each) => each.round).filter((round) => named.has(round));
  if (JSON.stringify(wanted) !== JSON.stringify(value)) throw wrong;
  return wanted;
}

function checkHops(task: Task, body: Members, records: readonly BatchRecord[]): void {
  records.forEach((record, place) => {
    const stated = ((body["queries"] as Json[])[place] as Members)["left_out"] as {
      [reason: string]: number;
    };
    for (const [reason, count] of leftOutByHops(record)) {
      const found = Object.hasOwn(stated, reason) ? stated[reason]! : 0;
      if (found < count)
        throw new Refused(
          "record",
          `${task.queries[place]!.name}: hops left out ${count} reports as ${reason}, but fewer are stated`,
        );
    }
  });
}

/** Check that all releases are composed: as counted, or at the minimum if they were never counted. */
function checkHistory(
  task: Task,
  body: Members,
  releases: readonly Release[],
  uncounted: readonly number[],
): void {
  const all = (body["all_rounds"] as Members)["history"] as unknown as {
    round: number;
    queries: { reports: number; valid: number }[];
  }[];
  const before = all.slice(0, -1);
  const [composed, released] = [before, releases].map((each) => each.map((one) => one.round));
  if (JSON.stringify(composed) !== JSON.stringify(released))
    throw new Refused(
      "history",
      `it composes rounds ${shown(composed)}, but ${shown(released)} were released before`,
    );
  const nevers = new Set(uncounted);
  releases.forEach((release, place) => {
    const never = nevers.has(release.round);
    for (const { reports, valid } of before[place]!.queries) {
      if (never && (reports !== task.minimumReports || valid !== task.minimumReports))
        throw new Refused(
          "history",
          `round ${release.round} was never counted, so it is charged at the minimum`,
        );
      if (!never && reports !== release.reports)
        throw new Refused(
          "history",
          `round ${release.round} released ${release.reports} reports, but ${reports} are stated`,
        );
    }
  });
}

/** Return the code and the words of what was thrown for a document; throw on what is no refusal. */
export function refusalOf(error: unknown): { because: string; message: string } {
  if (error instanceof Refused || error instanceof DocumentError)
    return { because: error.because, message: error.message };
  throw error;
}

/** Return the digest of a document, by which copies are known. */
export function digestOf(document: Uint8Array): string {
  return hex(sha256(document));
}
