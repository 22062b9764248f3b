/** Successions: signed statements by which one identity of a party follows another. */

import { type Bytes, fromHex, hex, isSame } from "../base/bytes.js";
import { canonical, type Json, parseCanonical } from "../base/canonical.js";
import { DocumentError } from "../base/errors.js";
import { isSignedBy, isWeak } from "../base/signatures.js";
import type { Identities } from "./task.js";

export type Role = "operator" | "shuffler" | "analyzer";

const FORMAT = "hubbub-succession/1";
const LONGEST = 2048;
const MOST = 64;
/** The last second of the year 9999. */
export const LATEST = 253_402_300_799;
const ROLES: readonly Role[] = ["operator", "shuffler", "analyzer"];
/** Whose signature a succession of each role needs beside those of its own two identities. */
const WITNESS: Readonly<Record<Role, Role>> = {
  operator: "shuffler",
  shuffler: "operator",
  analyzer: "operator",
};

export interface Succession {
  readonly role: Role;
  readonly old: string;
  readonly new: string;
  readonly witness: string;
  readonly begins: number;
  /** What was signed, and the document that it came in. */
  readonly body: Bytes;
  readonly document: Bytes;
  readonly signatures: Readonly<Record<string, string>>;
}

/** The parties of a task, or those two that sign a feed. */
type Parties = Partial<Identities>;

function rolesOf(parties: Parties): Role[] {
  return ROLES.filter((role) => parties[role] !== undefined);
}

function wrong(what: string): DocumentError {
  const remedy = "nothing is sealed under keys that it would lead to; report it to the operator";
  return new DocumentError("signature", `a succession of identities ${what}; ${remedy}`);
}

/** Read a succession; whether it was signed is checked where it is followed. */
export function readSuccession(document: Uint8Array): Succession {
  if (document.length > LONGEST) throw wrong(`has more than ${LONGEST} bytes`);
  const value = parseCanonical(document) as { [name: string]: Json };
  const body = value?.["body"] as { [name: string]: Json };
  if (body?.["format"] !== FORMAT)
    throw new DocumentError("format", `a succession is not of ${FORMAT}; upgrade`);
  const signatures = value["signatures"] as Record<string, string>;
  const names = [Object.keys(value), Object.keys(body)].map((each) => each.sort().join());
  if (names[0] !== "body,signatures" || names[1] !== "begins,format,new,old,role,witness") {
    throw wrong("has members that are not read here");
  }
  const { role, begins } = body as { role: Role; begins: number };
  const keys = ["old", "new", "witness"].map((name) => body[name] as string);
  if (!ROLES.includes(role) || keys.some((each) => fromHex(each, 32) === null) || new Set(keys).size !== 3) {
    throw wrong("does not name a role and three identities");
  }
  if (keys.some((each) => isWeak(fromHex(each, 32)!))) throw wrong("names a weak key");
  if (!Number.isSafeInteger(begins) || begins <= 0 || begins > LATEST) throw wrong("begins at no time");
  if (
    typeof signatures !== "object" ||
    signatures === null ||
    Object.keys(signatures).some((each) => !keys.includes(each))
  ) {
    throw wrong("is signed by others than its three identities");
  }
  const [old, following, witness] = keys as [string, string, string];
  const whole = new Uint8Array(document);
  return { role, begins, old, new: following, witness, body: canonical(body), document: whole, signatures };
}

function checkSigned(one: Succession): void {
  for (const signer of [one.old, one.new, one.witness]) {
    const signature = fromHex(one.signatures[signer], 64);
    if (signature === null || !isSignedBy(FORMAT, one.body, signature, fromHex(signer, 32)!)) {
      throw wrong("is not signed by its three identities");
    }
  }
}

/** Return the successions that lead to or from the task's identities; others are of other deployments.
 *
 * One whose witness is no party of it is left out too, and so is what is reached only through such a one. */
export function connected(identities: Parties, all: readonly Succession[]): Succession[] {
  for (let left = [...all]; ;) {
    const named = rolesOf(identities);
    const parties = new Set(named.map((role) => `${role} ${hex(identities[role]!)}`));
    const reached: Succession[] = [];
    for (let rest = left; ;) {
      const more = rest.filter(
        (one) => parties.has(`${one.role} ${one.old}`) || parties.has(`${one.role} ${one.new}`),
      );
      if (more.length === 0) break;
      for (const one of more) for (const each of [one.old, one.new]) parties.add(`${one.role} ${each}`);
      reached.push(...more);
      rest = rest.filter((one) => !more.includes(one));
    }
    left = reached.filter((one) => parties.has(`${WITNESS[one.role]} ${one.witness}`));
    if (left.length === reached.length) return reached;
  }
}

interface Held {
  readonly since: number;
  readonly identity: string;
}

/** The identities of each role, oldest first, and the successions that prove the order. */
export class Lineage {
  private constructor(
    private readonly held: Readonly<Record<Role, readonly Held[]>>,
    readonly successions: readonly Succession[],
  ) {}

  /** Return the lineage of a task's identities; throw a DocumentError if the successions make no chain. */
  static of(identities: Parties, successions: readonly Succession[]): Lineage {
    const distinct = new Map(successions.map((one) => [hex(one.body), one]));
    const ordered = [...distinct.values()].sort((a, b) => a.begins - b.begins || (a.role < b.role ? -1 : 1));
    if (ordered.length > MOST) throw wrong(`is one of more than ${MOST}`);
    const held: Record<Role, Held[]> = { operator: [], shuffler: [], analyzer: [] };
    for (const role of rolesOf(identities))
      held[role].push({ since: 0, identity: earliest(role, hex(identities[role]!), ordered) });
    const hops = (identities.hops ?? []).map(hex);
    for (const one of ordered) {
      checkSigned(one);
      if (hops.includes(one.new)) throw wrong("names the key of a hop");
      checkFollows(one, held);
      held[one.role].push({ since: one.begins, identity: one.new });
    }
    return new Lineage(held, ordered);
  }

  /** Whether an identity is, was or will be the role's. */
  holds(role: Role, identity: Uint8Array): boolean {
    return this.held[role].some((each) => isSame(fromHex(each.identity)!, identity));
  }

  /** Return the role's first identity (hex): the same, whichever of them a task names. */
  first(role: Role): string {
    return this.held[role][0]!.identity;
  }

  /** Return the role's identity at a moment; never an earlier one than `named`. */
  at(role: Role, named: Uint8Array, moment: number): Bytes {
    const all = this.held[role];
    const since = all.findIndex((each) => each.identity === hex(named));
    const later = all.slice(since + 1).filter((each) => each.since <= moment);
    return fromHex(later.at(-1)?.identity ?? hex(named))!;
  }
}

function earliest(role: Role, identity: string, all: readonly Succession[]): string {
  const before = new Map(all.filter((one) => one.role === role).map((one) => [one.new, one.old]));
  const seen = new Set([identity]);
  for (let old = before.get(identity); old !== undefined && !seen.has(old); old = before.get(identity)) {
    identity = old;
    seen.add(identity);
  }
  return identity;
}

function checkFollows(one: Succession, held: Readonly<Record<Role, readonly Held[]>>): void {
  const seen = ROLES.flatMap((role) => held[role].map((each) => each.identity));
  if (seen.includes(one.new)) throw wrong("leads back to a key that was in use before");
  const last = held[one.role].at(-1)!;
  if (one.old !== last.identity) throw wrong("is a fork, or follows an identity that is not trusted here");
  if (one.begins <= last.since) throw wrong("begins no later than the one before it");
  if (one.witness !== held[WITNESS[one.role]].at(-1)!.identity)
    throw wrong("has a witness who is not in force");
}
