/** An entry of a feed of tasks: it publishes a task, or ends one after a round, and names the entry before it. */

import { sha256 } from "@noble/hashes/sha2.js";

import { type Bytes, fromHex, fromUtf8, hex } from "../base/bytes.js";
import { canonical, parseCanonical } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import { isSignedBy, publicKey } from "../base/signatures.js";
import * as read from "../task/fields.js";
import { connected, Lineage, type Succession } from "../task/successions.js";
import { type Pins, readSigned, readUnsigned, type Task } from "../task/task.js";
import { type PurposeBudget, readBudget } from "./budgets.js";

const FORMAT = "hubbub-feed/1";
const LONGEST_ENTRY = 2 * 2 ** 20;
/** The last entry that may publish, and the last of all: a full feed can still end its tasks. */
export const MOST_ENTRIES = 1000;
const MOST_NUMBER = 2 * MOST_ENTRIES;

export interface Entry {
  readonly number: number;
  /** The hash (hex) of the entry before it, and its own: SHA-256 of the canonical body. */
  readonly previous: string;
  readonly hash: string;
  readonly taskId: string;
  /** The last round of a task that it ends, -1 for none; null if it publishes. */
  readonly after: number | null;
  readonly budget: PurposeBudget | null;
  /** The task that it publishes, whose signatures are still to be checked; and its file. */
  readonly task: Task | null;
  readonly file: Bytes | null;
  readonly logProof: string | null;
  /** The whole document, as it was received. */
  readonly document: string;
  readonly signed: Signed;
}

interface Signed {
  readonly operator: Bytes;
  readonly shuffler: Bytes;
  readonly body: Bytes;
  readonly signatures: read.Members;
}

/** Read an entry; its signatures and its place are still to be checked. */
export function readEntry(document: Uint8Array): Entry {
  if (document.length > LONGEST_ENTRY)
    throw new DocumentError("value", `an entry of the feed has more than ${LONGEST_ENTRY} bytes; ask the operator`);
  const value = read.object(parseCanonical(document), "an entry of the feed");
  const body = read.object(value["body"], "body");
  if (body["format"] !== FORMAT) throw formatError(body["format"]);
  const publishes = read.oneOf(body["action"], "action", ["publish", "end"]) === "publish";
  const own = publishes ? optional(body, "budget") : ["after"];
  read.members(body, "body", ["action", "format", "number", "operator", "previous", "shuffler", "task", ...own]);
  const beside = publishes ? ["task", ...optional(value, "log_proof")] : [];
  read.members(value, "an entry of the feed", ["body", "signatures", ...beside]);
  const whole = canonical(body);
  const file = publishes ? canonical(value["task"]!) : null;
  const task = file === null ? null : readUnsigned(file);
  const taskId = hex(hash(body["task"], "task"));
  if (task !== null && hex(task.id) !== taskId)
    throw read.refused("task", "is the id of another task than the one beside it");
  return {
    number: read.whole(body["number"], "number", 1, MOST_NUMBER),
    previous: hex(hash(body["previous"], "previous")),
    hash: hex(sha256(whole)),
    taskId,
    after: publishes ? null : read.whole(body["after"], "after", -1, Number.MAX_SAFE_INTEGER),
    budget: Object.hasOwn(body, "budget") ? readBudget(body["budget"]) : null,
    task,
    file,
    logProof: readLogProof(value, task),
    document: fromUtf8(document),
    signed: {
      operator: read.key(body["operator"], "operator"),
      shuffler: read.key(body["shuffler"], "shuffler"),
      body: whole,
      signatures: read.object(value["signatures"], "signatures"),
    },
  };
}

function optional(of: read.Members, name: string): string[] {
  return Object.hasOwn(of, name) ? [name] : [];
}

function hash(value: read.Members[string] | undefined, where: string): Bytes {
  const found = fromHex(value, 32);
  if (found === null) throw read.refused(where, "is no hash of 64 hex digits");
  return found;
}

function readLogProof(value: read.Members, task: Task | null): string | null {
  const proof = value["log_proof"];
  if (proof === undefined) return null;
  if (typeof proof !== "string" || task?.log === null)
    throw read.refused("log_proof", "is no text, or is beside a task that demands no log");
  return proof;
}

function formatError(format: unknown): DocumentError {
  const named = typeof format === "string" ? JSON.stringify(format.slice(0, 40)) : "no format";
  return new DocumentError("format", `an entry of the feed names ${named}: this version reads ${FORMAT}; upgrade`);
}

/** Check that both parties whose keys are pinned signed an entry and its task, and that this is in its log. */
export function checkEntry(entry: Entry, pins: Pins, successions: readonly Succession[]): void {
  const { operator, shuffler, body, signatures } = entry.signed;
  const known = {
    operator: publicKey(pins.operator, "the operator's key"),
    shuffler: publicKey(pins.shuffler, "the shuffler's key"),
  };
  const lineage = Lineage.of(known, connected(known, successions));
  const where = `entry ${entry.number} of the feed`;
  for (const [role, named] of [
    ["operator", operator],
    ["shuffler", shuffler],
  ] as const) {
    if (!lineage.holds(role, named))
      throw unsigned(`${where} names another ${role} than the one that is trusted here`);
    const signature = fromHex(signatures[role], 64);
    if (signature === null || !isSignedBy(FORMAT, body, signature, named))
      throw unsigned(`the ${role} has not signed ${where}`);
  }
  read.members(signatures, "signatures", ["operator", "shuffler"]);
  if (entry.file === null) return;
  try {
    readSigned(entry.file, pins, { successions, logProof: entry.logProof });
  } catch (error) {
    if (error instanceof DocumentError) throw new DocumentError(error.because, `${where}: ${error.message}`);
    throw error;
  }
}

function unsigned(problem: string): DocumentError {
  return new DocumentError("signature", `${problem}; nothing of it is taken, report it to the operator`);
}
