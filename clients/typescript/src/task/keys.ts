/** The signed keys of a round: checked against the task's identities, or those that follow them. */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromHex, fromUtf8, hex, isSame, joined, own, utf8 } from "../base/bytes.js";
import { canonical, type Json, parseCanonical } from "../base/canonical.js";
import { type Because, DocumentError } from "../base/errors.js";
import { isSignedBy } from "../base/signatures.js";
import { preparedFrom } from "./schedule.js";
import { connected, LATEST, Lineage, readSuccession } from "./successions.js";
import { type Identities, SUITES, type SuiteName, type Task } from "./task.js";

const FORMAT = "hubbub-key/1";
const LABEL = utf8("hubbub/v1 key set");
const PUBLIC_BYTES: Readonly<Record<SuiteName, number>> = {
  "X25519-HKDF-SHA256-CHACHA20POLY1305": 32,
  "MLKEM768-X25519": 1216,
};

export interface SignedBody {
  readonly body: Bytes;
  readonly signature: Bytes;
}

/** A round's key records as they were received. If there are hops, `analyzer` is the first hop's. */
export interface KeySet {
  readonly shuffler: SignedBody;
  readonly analyzer: SignedBody;
  readonly successions: readonly Bytes[];
}

interface KeyRecord {
  readonly publicKey: Bytes;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly behind: SignedBody | null;
}

/** A round's keys, checked: envelopes may be sealed for them. */
export interface RoundKeys {
  readonly round: number;
  readonly hash: Bytes;
  readonly shuffler: Bytes;
  readonly analyzer: Bytes;
  readonly hops: readonly Bytes[];
  /** The successions that were followed, as documents. */
  readonly successions: readonly Bytes[];
}

export function keySetHash(keys: KeySet): Bytes {
  return own(sha256(joined(LABEL, sha256(keys.shuffler.body), sha256(keys.analyzer.body))));
}

/** Check a round's keys at `now`; `known` are the successions that were followed before. */
export function checkKeys(
  task: Task,
  round: number,
  keys: KeySet,
  now: number,
  known: readonly Bytes[] = [],
): RoundKeys {
  const documents = new Map([...known, ...keys.successions].map((each) => [hex(each), each]));
  const successions = [...documents.values()].map(readSuccession);
  const all = [...task.lineage.successions, ...successions];
  const lineage = Lineage.of(task.identities, connected(task.identities, all));
  const moment = preparedFrom(task.schedule, round);
  const identities: Identities = {
    operator: task.identities.operator,
    shuffler: lineage.at("shuffler", task.identities.shuffler, moment),
    analyzer: lineage.at("analyzer", task.identities.analyzer, moment),
    hops: task.identities.hops,
  };
  const shuffler = readRecord(keys.shuffler, identities.shuffler, "shuffler", task, round, now);
  const hops: Bytes[] = [];
  let inner = keys.analyzer;
  for (const hop of identities.hops) {
    const record = readRecord(inner, hop, "hop", task, round, now);
    hops.push(record.publicKey);
    inner = record.behind!;
  }
  const analyzer = readRecord(inner, identities.analyzer, "analyzer", task, round, now);
  return {
    round,
    hash: keySetHash(keys),
    shuffler: shuffler.publicKey,
    analyzer: analyzer.publicKey,
    hops,
    successions: lineage.successions.map((one) => one.document),
  };
}

function wrong(because: Because, role: string, what: string): DocumentError {
  return new DocumentError(
    because,
    `the ${role}'s key record ${what}; nothing is sealed for it, report it to the operator`,
  );
}

function readRecord(
  signed: SignedBody,
  identity: Bytes,
  role: string,
  task: Task,
  round: number,
  now: number,
): KeyRecord {
  if (!isSignedBy(FORMAT, signed.body, signed.signature, identity)) {
    // A later version is signed under its own name.
    const other = formatOf(signed.body);
    if (other !== undefined && other !== FORMAT) throw wrong("format", role, `is not of ${FORMAT}`);
    throw wrong("signature", role, "is not signed by the party that the task names");
  }
  const value = parseCanonical(signed.body) as { [name: string]: Json };
  if (value?.["format"] !== FORMAT) throw wrong("format", role, `is not of ${FORMAT}`);
  const suite = value["suite"] as SuiteName;
  if (!SUITES.includes(suite)) throw wrong("suite", role, "is for a suite that is not known");
  const record = readMembers(value, role, suite);
  const expected: [Because, Json | undefined, Json][] = [
    ["role", value["role"], role],
    ["task", value["task"], hex(task.id)],
    ["round", value["round"], round],
    ["suite", suite, task.suite],
  ];
  for (const [because, found, wanted] of expected) {
    if (found !== wanted) throw wrong(because, role, `is for another ${because}`);
  }
  if (now < record.notBefore || now > record.notAfter) {
    throw wrong(
      "time",
      role,
      `is valid from ${record.notBefore} to ${record.notAfter}, and now is ${Math.floor(now)}`,
    );
  }
  return record;
}

/** Return the format that a body names, in canonical form or not. */
function formatOf(body: Bytes): unknown {
  try {
    return (JSON.parse(fromUtf8(body)) as { format?: unknown } | null)?.format;
  } catch {
    return undefined;
  }
}

function readMembers(value: { [name: string]: Json }, role: string, suite: SuiteName): KeyRecord {
  const names = [
    "format",
    "key_id",
    "not_after",
    "not_before",
    "public_key",
    "role",
    "round",
    "suite",
    "task",
  ];
  if (value["role"] === "hop") names.unshift("behind");
  if (Object.keys(value).sort().join() !== names.join())
    throw wrong("value", role, "has members that are not read here");
  const numbers = ["round", "not_before", "not_after"].map((name) => value[name] as number);
  if (numbers.some((each) => !Number.isSafeInteger(each) || each < 0 || each > LATEST)) {
    throw wrong("value", role, "has no whole numbers for its round and times");
  }
  const [round, notBefore, notAfter] = numbers as [number, number, number];
  if (notBefore > notAfter || round >= 2 ** 32) throw wrong("value", role, "is never valid");
  const publicKey = fromHex(value["public_key"], PUBLIC_BYTES[suite]);
  if (publicKey === null) throw wrong("value", role, "has a key of another length");
  if (fromHex(value["task"], 32) === null) throw wrong("value", role, "names no task");
  const id = fromHex(value["key_id"], 8);
  if (id === null || !isSame(id, sha256(publicKey).subarray(0, 8)))
    throw wrong("value", role, "has another key's id");
  return {
    publicKey,
    notBefore,
    notAfter,
    behind: value["role"] === "hop" ? readBehind(value["behind"], role) : null,
  };
}

function readBehind(value: Json | undefined, role: string): SignedBody {
  const found = value as { [name: string]: Json } | undefined;
  const signature = fromHex(found?.["signature"], 64);
  if (signature === null || Object.keys(found!).sort().join() !== "body,signature") {
    throw wrong("value", role, "has no signed record of the party behind it");
  }
  return { body: canonical(found!["body"]!), signature };
}
