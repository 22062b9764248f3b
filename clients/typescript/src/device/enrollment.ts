/** Gets a credential for a ticket, and makes the proofs of submissions with it. */

import { type Bytes, hex, ownHex, utf8 } from "../base/bytes.js";
import { Refusal, Unreachable } from "../base/errors.js";
import type { SentSubmission } from "../calls/calls.js";
import type { Retrying } from "../calls/retrying.js";
import type { Destination } from "../seal/envelope.js";
import { type Credential, proofOf } from "../seal/proofs.js";
import type { DeviceState, Enrollment } from "../state/state.js";
import { connected, readSuccession } from "../task/successions.js";
import type { Session } from "./session.js";

/** Seconds before its end from which a credential is not relied on: clocks differ. */
const MARGIN_SECONDS = 60;
const ONCE_MS = 5000;
/** Reasons for which the same ticket is refused again, however often. */
const SPENT: ReadonlySet<string> = new Set(["bad_ticket", "ticket_expired", "ticket_redeemed", "revoked"]);

/** Return a submission with its proof, if the task wants one; a ticket is redeemed if there is no credential. */
export async function proven(
  session: Session,
  to: Destination,
  id: Bytes,
  envelope: Bytes,
  retrying: Retrying,
): Promise<SentSubmission> {
  if (session.task.mode === "open") return { id, envelope };
  const credential = await credentialOf(session, retrying);
  return { id, envelope, credential: credential.id, proof: proofOf(credential, to, id, envelope) };
}

/** Return under which of the shuffler's identities this device is enrolled: else the first one that is known.
 *
 * Successions that came later may have shown an earlier identity than the first one that was known then. */
function placeOf({ task }: Session, state: DeviceState): string {
  const known = [...task.lineage.successions, ...state.successions.map((each) => readSuccession(ownHex(each)))];
  const follow = connected(task.identities, known).filter((one) => one.role === "shuffler");
  const all = [hex(task.identities.shuffler), ...follow.flatMap((one) => [one.old, one.new])];
  return all.find((each) => state.enrollments[each] !== undefined) ?? task.lineage.first("shuffler");
}

/** Forget a credential that is no longer known, so that no later call sends it; ticket and secret stay. */
export async function dropCredential(session: Session): Promise<void> {
  await session.store.change((state) => {
    delete state.enrollments[placeOf(session, state)]?.credential;
  });
}

async function credentialOf(session: Session, retrying: Retrying): Promise<Credential> {
  const state = await session.store.read();
  const held = state.enrollments[placeOf(session, state)];
  const enroll: Enroll = (ticket, key) =>
    retrying.retry((timeoutMs) => session.calls.enroll(ticket, key, timeoutMs));
  if (held?.credential !== undefined && expiry(held.credential.id) > session.clock() + MARGIN_SECONDS) {
    return renewed(session, held, read(held.credential));
  }
  const { ticket } = session.options;
  // A ticket that is stored is redeemed, also again: a function would give another one, each time it is called.
  if (held !== undefined && held.credential === undefined && typeof ticket === "function") {
    try {
      return await redeemed(session, held.ticket, held, enroll);
    } catch (error) {
      if (!(error instanceof Refusal && SPENT.has(error.reason))) throw error;
    }
  }
  const given = (typeof ticket === "function" ? await ticket() : ticket)?.trim() || held?.ticket;
  if (given) return redeemed(session, given, held, enroll);
  const name = session.task.name;
  throw new Refusal(
    "not_enrolled",
    `task ${name} admits enrolled devices; give this one a ticket of the operator`,
  );
}

type Enroll = (ticket: Bytes, deviceKey: Bytes) => Promise<Credential>;

/** Return the credential of a newer ticket, if the application gives one; else that which lasts.
 *
 * There is one try, so that time is left to submit. */
async function renewed(session: Session, held: Enrollment, credential: Credential): Promise<Credential> {
  const { ticket } = session.options;
  if (typeof ticket !== "string" || ticket.trim() === held.ticket) return credential;
  try {
    const newer = await session.calls.enroll(utf8(ticket.trim()), ownHex(held.deviceKey), ONCE_MS);
    await keepCredential(session, { deviceKey: held.deviceKey, ticket: ticket.trim() }, newer);
    return newer;
  } catch (error) {
    if (error instanceof Refusal || error instanceof Unreachable) return credential;
    throw error;
  }
}

function expiry(id: string): number {
  const bytes = ownHex(id);
  return Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(4));
}

function read(credential: { readonly id: string; readonly key: string }): Credential {
  return { id: ownHex(credential.id), key: ownHex(credential.key) };
}

/** Redeem a ticket by the secret of this device. Both are stored before they are first sent.
 *
 * `before` is what was stored when the ticket was chosen: what another tab has stored since counts instead. */
async function redeemed(
  session: Session,
  given: string,
  before: Enrollment | undefined,
  enroll: Enroll,
): Promise<Credential> {
  const fresh = hex(session.random(32));
  const chosen = await session.store.change((state) => {
    const held = (state.enrollments[placeOf(session, state)] ??= { deviceKey: fresh, ticket: given });
    if (held.ticket === before?.ticket && held.ticket !== given) {
      held.ticket = given;
      // With the credential of the ticket before, which has ended, a function would be asked for one more.
      delete held.credential;
    }
    return { deviceKey: held.deviceKey, ticket: held.ticket };
  });
  const credential = await enroll(utf8(chosen.ticket), ownHex(chosen.deviceKey));
  await keepCredential(session, chosen, credential);
  return credential;
}

async function keepCredential(
  session: Session,
  of: Enrollment,
  credential: Credential,
): Promise<void> {
  await session.store.change((state) => {
    const { deviceKey, ticket } = of;
    const kept = { id: hex(credential.id), key: hex(credential.key) };
    state.enrollments[placeOf(session, state)] = { deviceKey, ticket, credential: kept };
  });
}
