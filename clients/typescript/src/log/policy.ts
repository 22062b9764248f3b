/** What a task demands of a transparency log, and the check that a document is in that log. */

import { hex } from "../base/bytes.js";
import type { Json } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import { isWeak } from "../base/signatures.js";
import * as read from "../task/fields.js";
import { isSignedBy, LOG, type NoteKey, readNoteKey, WITNESS } from "./notes.js";
import { isProofOf, leafOf, type LoggedProof, readProof } from "./proofs.js";

/** Most witnesses of a task: a checkpoint has room for the log's signature and theirs. */
const MOST_WITNESSES = 63;

/** A task's member `log`: the log, its witnesses, and how many of these must have signed. */
export interface LogPolicy {
  readonly log: NoteKey;
  readonly witnesses: readonly NoteKey[];
  readonly threshold: number;
}

/** Where a document is in a log: its entry, the checkpoint's size, and the names of those who witnessed it. */
export interface Logged {
  readonly index: number;
  readonly size: number;
  readonly witnesses: readonly string[];
}

export function readPolicy(value: Json | undefined): LogPolicy {
  const found = read.members(value, "log", ["key", "threshold", "witnesses"]);
  const log = readKey(found["key"], "log.key", LOG);
  const witnesses = read
    .list(found["witnesses"], "log.witnesses", 1, MOST_WITNESSES)
    .map((each) => readKey(each, "log.witnesses", WITNESS));
  const many = witnesses.length;
  const names = new Set(witnesses.map((each) => each.name));
  const keys = new Set([log, ...witnesses].map((each) => hex(each.public)));
  if (names.size < many || keys.size <= many)
    throw read.refused("log.witnesses", "has a name or a key twice, or the log's own key");
  // With half of them, two views might each have signatures of witnesses that saw this one alone.
  const least = Math.floor(many / 2) + 1;
  return { log, witnesses, threshold: read.whole(found["threshold"], "log.threshold", least, many) };
}

function readKey(value: Json | undefined, where: string, role: NoteKey["role"]): NoteKey {
  const key = typeof value === "string" ? readNoteKey(value, role) : null;
  if (key === null)
    throw read.refused(where, `has no key of a ${role === LOG ? "log" : "witness"} in its one form`);
  // A task that names such a key is wrong, whoever signed.
  if (isWeak(key.public)) throw read.refused(where, `has a weak key, that of ${key.name}`);
  return key;
}

/** Return what is demanded, for people. */
export function policyWords({ log, witnesses, threshold }: LogPolicy): string {
  const many = witnesses.length;
  const who = many === 1 ? `its witness ${witnesses[0]!.name}` : `${threshold} of its ${many} witnesses`;
  return `${log.name}, signed by ${who}`;
}

/** Check that a leaf is in the log, and that enough witnesses signed; throw a DocumentError if not. */
export function checkLogged(policy: LogPolicy, leaf: Uint8Array, proof: LoggedProof): Logged {
  const { log, threshold } = policy;
  const { checkpoint, index } = proof;
  if (checkpoint.origin !== log.name) {
    const words = `the checkpoint is of log ${checkpoint.origin}, not of ${log.name}`;
    throw new DocumentError("log", `${words}; give a proof of this log`);
  }
  if (!isSignedBy(checkpoint, log)) {
    const words = `log ${log.name} has not signed the checkpoint with the key in the task`;
    throw new DocumentError("log", `${words}; ask the operator for the proof`);
  }
  // Of a witness that a task names, a wrong signature is refused, whoever else signed.
  const names = policy.witnesses.filter((each) => isSignedBy(checkpoint, each)).map((each) => each.name);
  if (names.length < threshold) {
    const words = `${names.length} of the task's witnesses have signed its checkpoint, but ${threshold} must have`;
    throw new DocumentError("witnesses", `${words}; get a later proof from the log, once they have signed`);
  }
  if (!isProofOf(proof, leaf)) {
    const words = `the document is not entry ${index} of the log's ${checkpoint.size}: it was changed, or the proof`;
    throw new DocumentError("inclusion", `${words} is of another one; give the document that was logged`);
  }
  return { index, size: checkpoint.size, witnesses: names };
}

/** Check that a signed task is in the log: these very bytes, with both signatures. */
export function checkTaskLogged(
  policy: LogPolicy,
  name: string,
  document: Uint8Array,
  proof: Uint8Array | null,
): Logged {
  if (proof === null) {
    const words = `task ${name} demands that it is in log ${policyWords(policy)}, and there is no proof of it`;
    throw new DocumentError("proof", `${words}; ask the operator for the proof, and give it as logProof`);
  }
  try {
    return checkLogged(policy, leafOf(document), readProof(proof));
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    const words = `task ${name} is not shown to be in log ${policy.log.name}, as it demands`;
    throw new DocumentError(error.because, `${words}: ${error.message}`);
  }
}
