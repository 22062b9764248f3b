/** Records of batches, by the shuffler and by the hops around it, and the chain of a task's releases. */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromHex, hex, isSame, joined, own, utf8 } from "../../src/base/bytes.js";
import { canonical, type Json } from "../../src/base/canonical.js";
import { isSignedBy } from "../../src/base/signatures.js";
import type { Task } from "../../src/task/task.js";
import { Refused, shown } from "../base/refused.js";

const BATCH = "hubbub-batch/1";
const HOP = "hubbub-hop/1";
const RELEASES = utf8("hubbub/v1 releases");
const MOST_REPORTS = 1e12;
const MOST_ADDED = 2e7;
const LATER = 2 ** 32;
export const FIRST_HOP = 2;

const BATCH_MEMBERS =
  "admission,closed_by,digest,dummies,format,head,key_set,position,query,refusals,reports,round,task";
const HOP_MEMBERS = "digest,dummies,format,hop,left_out,previous,received,released";
const REASONS: readonly string[] = [
  ...["malformed", "wrong_size", "unknown_task", "unknown_round", "too_early", "too_late", "erased"],
  ...["key_set_differs", "id_conflict", "unopenable", "overloaded", "not_ready", "not_allowed"],
  ...["below_minimum", "closed_by_schedule", "bad_record", "digest_differs", "wrong_offset", "incomplete"],
  ...["no_results", "over_budget", "not_enrolled", "credential_expired", "revoked", "not_countersigned"],
  ...["bad_ticket", "ticket_expired", "ticket_redeemed", "forked", "too_large", "results_differ"],
  ...["round_full", "disk_full", "task_ended"],
];
const AT_A_HOP = ["duplicate", "unopenable"];

export type Members = { readonly [name: string]: Json };
export type Counts = { readonly [reason: string]: number };

export interface Signed {
  readonly content: Members;
  readonly body: Bytes;
  readonly signature: Bytes;
}

export interface HopRecord {
  readonly position: number;
  readonly received: number;
  readonly leftOut: Counts;
  readonly dummies: number;
  readonly released: number;
}

export interface BatchRecord {
  readonly task: string;
  readonly round: number;
  readonly query: number;
  readonly reports: number;
  readonly dummies: number;
  readonly admission: Json;
  readonly position: number;
  readonly head: string;
  /** What all records of a round have in common. */
  readonly ofRound: string;
  readonly hops: readonly HopRecord[];
  /** SHA-256 of the first shuffler's record. */
  readonly hash: string;
}

export interface Release {
  readonly round: number;
  readonly reports: number;
  readonly dummies: number;
  readonly records: readonly string[];
}

export function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isCount(value: unknown, most = Number.MAX_SAFE_INTEGER): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value <= most;
}

export function namesOf(value: Members): string {
  return Object.keys(value).sort().join();
}

function isCounts(value: Json | undefined, most: number): value is { [name: string]: number } {
  return isObject(value) && Object.values(value).every((each) => isCount(each, most));
}

/** Return a document that is inside of another one; its signature is still to be checked. */
export function signedIn(value: Json | undefined): Signed {
  if (!isObject(value) || namesOf(value) !== "body,signature" || !isObject(value["body"]))
    throw new Refused("form", "a signed document must have exactly the members body and signature");
  const signature = fromHex(value["signature"], 64);
  if (signature === null) throw new Refused("form", "a signature must be 128 lower-case hex digits");
  return { content: value["body"], body: canonical(value["body"]), signature };
}

function checkSigned(signed: Signed, format: string, key: Uint8Array, called: string): void {
  if (isSignedBy(format, signed.body, signed.signature, key)) {
    if (signed.content["format"] === format) return;
    throw new Refused("format", `the ${called} is signed as ${format}, but names another format`);
  }
  if (signed.content["format"] !== format)
    throw new Refused(
      "format",
      `the ${called} is of the format ${shown(signed.content["format"])}, not ${format}`,
    );
  const what = `the ${called} was changed, or another key signed it`;
  throw new Refused("signature", `the ${called}'s signature is not by ${fingerprint(key)}: ${what}`);
}

/** Return a public key as people compare it. */
export function fingerprint(key: Uint8Array): string {
  return hex(key).match(/.{8}/g)!.join("-");
}

/** Return the round that a record names, of which nothing is checked yet. */
export function roundNamed(document: Signed): number {
  let content: Members = document.content;
  while (content["format"] === HOP) {
    const previous = content["previous"];
    if (!isObject(previous) || !isObject(previous["body"]))
      throw new Refused("record", `it is no record of ${HOP}`);
    content = previous["body"];
  }
  const round = content["round"];
  if (!isCount(round, LATER - 1))
    throw new Refused("record", `it is no record of ${BATCH}: it names no round`);
  return round;
}

/** Return a batch's record, checked to be signed by the shuffler and, around that, by each hop. */
export function readRecord(document: Signed, shuffler: Uint8Array, hops: readonly Bytes[]): BatchRecord {
  if (hops.length === 0) return readBatch(document, shuffler);
  checkSigned(document, HOP, hops.at(-1)!, "hop record");
  const found = readHop(document.content);
  const before = readRecord(signedIn(document.content["previous"]), shuffler, hops.slice(0, -1));
  const place = FIRST_HOP + hops.length - 1;
  if (found.position !== place)
    throw new Refused("record", `the record of hop ${found.position} is in the place of hop ${place}`);
  const came = before.hops.at(-1)?.released ?? before.reports + before.dummies;
  if (found.received !== came)
    throw new Refused(
      "record",
      `hop ${place} received ${found.received} envelopes, but ${came} were released to it`,
    );
  return { ...before, hops: [...before.hops, found] };
}

function readHop(content: Members): HopRecord {
  const wrong = (what: string): Refused => new Refused("record", `it is no record of ${HOP}: ${what}`);
  if (namesOf(content) !== HOP_MEMBERS) throw wrong("it has other members");
  const most = MOST_REPORTS + MOST_ADDED;
  const { hop, received, released, dummies, left_out: leftOut } = content as { [name: string]: Json };
  if (!isCount(received, most) || !isCount(released, most) || !isCount(dummies, most))
    throw wrong("a count is no whole number");
  if (!isCount(hop, FIRST_HOP + 6) || hop < FIRST_HOP) throw wrong("no hop has such a position");
  if (!isCounts(leftOut, most)) throw wrong("what was left out has no whole numbers");
  const left = Object.values(leftOut).reduce((sum, each) => sum + each, 0);
  if (Object.entries(leftOut).some(([reason, count]) => !AT_A_HOP.includes(reason) || count === 0))
    throw wrong("it left envelopes out for a reason that hops do not have");
  if (left > received || released !== received - left + dummies) throw wrong("its numbers do not add up");
  if (fromHex(content["digest"], 32) === null) throw wrong("its digest is none");
  return { position: hop, received, leftOut, dummies, released };
}

function readBatch(document: Signed, shuffler: Uint8Array): BatchRecord {
  checkSigned(document, BATCH, shuffler, "batch record");
  const content = document.content as { [name: string]: Json };
  const wrong = (what: string): Refused => new Refused("record", `it is no record of ${BATCH}: ${what}`);
  if (namesOf(content) !== BATCH_MEMBERS) throw wrong("it has other members");
  const { query, round, reports, dummies, position, refusals, closed_by: closedBy } = content;
  if (!isCount(query, LATER - 1) || !isCount(round, LATER - 1))
    throw wrong("its query or round is no whole number");
  if (!isCount(reports, MOST_REPORTS) || !isCount(dummies, MOST_REPORTS) || !isCount(position, MOST_REPORTS))
    throw wrong("a count is no whole number");
  if (!isCounts(refusals, MOST_REPORTS) || Object.keys(refusals).some((each) => !REASONS.includes(each)))
    throw wrong("it counts refusals that there are not");
  if (closedBy !== "schedule" && closedBy !== "operator") throw wrong("nobody closes a round so");
  const digests = ["digest", "head", "key_set", "task"].map((name) => content[name]);
  if (digests.some((each) => fromHex(each, 32) === null)) throw wrong("a digest is none");
  return {
    task: content["task"] as string,
    round,
    query,
    reports,
    dummies,
    admission: content["admission"]!,
    position,
    head: content["head"] as string,
    ofRound: hex(canonical([content["key_set"]!, closedBy, refusals])),
    hops: [],
    hash: hex(sha256(document.body)),
  };
}

/** Return the sum of what all shufflers of the chain added to a batch. */
export function addedTo(record: BatchRecord): number {
  return record.hops.reduce((sum, hop) => sum + hop.dummies, record.dummies);
}

/** Return how many envelopes the hops left out, by reason. */
export function leftOutByHops(record: BatchRecord): Map<string, number> {
  const found = new Map<string, number>();
  for (const hop of record.hops)
    for (const [reason, count] of Object.entries(hop.leftOut))
      found.set(reason, (found.get(reason) ?? 0) + count);
  return found;
}

function readRelease(value: Json, task: Task): Release {
  const wrong = (what: string): Refused => new Refused("release", `a release ${what}`);
  if (!isObject(value) || namesOf(value) !== "dummies,records,reports,round")
    throw wrong("has other members");
  const { dummies, records, reports, round } = value;
  if (!isCount(dummies, MOST_REPORTS) || !isCount(reports, MOST_REPORTS) || !isCount(round, MOST_REPORTS))
    throw wrong("has a number that is no whole one");
  if (!Array.isArray(records) || records.some((each) => fromHex(each, 32) === null))
    throw wrong("has no digests");
  if (round >= task.schedule.rounds) throw wrong(`is of round ${round}, of ${task.schedule.rounds} rounds`);
  if (reports < task.minimumReports)
    throw wrong(`of round ${round} has ${reports} reports, fewer than ${task.minimumReports}`);
  if (dummies !== task.privacy.dummies || records.length !== task.queries.length)
    throw wrong(`of round ${round} has other dummies or queries than the task`);
  return { round, reports, dummies, records: records as string[] };
}

/** Return the releases that a certificate lists, checked against the positions in the records of its round. */
export function attested(task: Task, listed: Json | undefined, records: readonly BatchRecord[]): Release[] {
  if (!Array.isArray(listed)) throw new Refused("release", "the releases are no list");
  const releases = listed.map((each) => readRelease(each, task));
  let head = sha256(joined(RELEASES, new Uint8Array([0]), task.id));
  for (const release of releases) {
    const content = { ...release, records: [...release.records] };
    head = sha256(joined(RELEASES, new Uint8Array([1]), head, canonical(content)));
  }
  for (const record of records) {
    if (record.position !== releases.length) {
      const said = `${record.position} rounds were released before it, but ${releases.length} are listed`;
      throw new Refused("release", said);
    }
    if (!isSame(own(head), fromHex(record.head, 32)!))
      throw new Refused(
        "release",
        "the releases listed are not those that the shuffler's batch records attest",
      );
  }
  return releases;
}
