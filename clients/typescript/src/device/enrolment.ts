/** Gets a credential for a ticket, and makes the proofs of submissions with it. */

import { type Bytes, hex, ownHex, utf8 } from "../base/bytes.js";
import { Refusal, Unreachable } from "../base/errors.js";
import type { SentSubmission } from "../calls/calls.js";
import type { Retrying } from "../calls/retrying.js";
import type { Destination } from "../seal/envelope.js";
import { type Credential, proofOf } from "../seal/proofs.js";
import type { Enrolment } from "../state/state.js";
import type { Session } from "./session.js";

/** Seconds before its end from which a credential is not relied on: clocks differ. */
const MARGIN_SECONDS = 60;

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

/** Forget a credential that is no longer known, so that no later call sends it; ticket and secret stay. */
export async function dropCredential(session: Session): Promise<void> {
  const shuffler = session.task.lineage.first("shuffler");
  await session.store.change((state) => {
    delete state.enrolments[shuffler]?.credential;
  });
}

async function credentialOf(session: Session, retrying: Retrying): Promise<Credential> {
  const shuffler = session.task.lineage.first("shuffler");
  const held = (await session.store.read()).enrolments[shuffler];
  const lasts =
    held?.credential !== undefined && expiry(held.credential.id) > session.clock() + MARGIN_SECONDS;
  // A function is not asked again while there is a credential: it may cost a request.
  const given =
    typeof session.options.ticket === "string" || !lasts ? await ticketOf(session, held) : held.ticket;
  if (lasts && given === held.ticket) return read(held.credential!);
  try {
    return await redeemed(session, shuffler, given, retrying);
  } catch (error) {
    // A credential that still lasts proves the submission, whatever is wrong with a newer ticket.
    if (lasts && (error instanceof Refusal || error instanceof Unreachable)) return read(held.credential!);
    throw error;
  }
}

async function ticketOf(session: Session, held: Enrolment | undefined): Promise<string> {
  const { ticket } = session.options;
  const given = typeof ticket === "function" ? await ticket() : ticket;
  const found = given?.trim() || held?.ticket;
  if (found) return found;
  const name = session.task.name;
  throw new Refusal(
    "not_enrolled",
    `task ${name} admits enrolled devices, and this one has no ticket; give it one`,
  );
}

function expiry(id: string): number {
  const bytes = ownHex(id);
  return Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(4));
}

function read(credential: { readonly id: string; readonly key: string }): Credential {
  return { id: ownHex(credential.id), key: ownHex(credential.key) };
}

/** Redeem a ticket by the secret of this device, which is stored before it is first sent. */
async function redeemed(
  session: Session,
  shuffler: string,
  ticket: string,
  retrying: Retrying,
): Promise<Credential> {
  const fresh = hex(session.random(32));
  const deviceKey = await session.store.change((state) => {
    state.enrolments[shuffler] ??= { deviceKey: fresh, ticket };
    return state.enrolments[shuffler].deviceKey;
  });
  const credential = await retrying.retry((timeoutMs) =>
    session.calls.enroll(utf8(ticket), ownHex(deviceKey), timeoutMs),
  );
  await session.store.change((state) => {
    state.enrolments[shuffler] = {
      deviceKey,
      ticket,
      credential: { id: hex(credential.id), key: hex(credential.key) },
    };
  });
  return credential;
}
