/** The steps of a submission, each of which is on disk before the next begins. */

import { hex, joined, ownHex } from "../base/bytes.js";
import { HubbubError, KeySetChanged, NoRound, OptedOut, Refusal, StateError } from "../base/errors.js";
import type { Retrying } from "../calls/retrying.js";
import { type Answers, drawReports } from "../queries/encode.js";
import { sealSubmission } from "../seal/envelope.js";
import { charge, checkLimits } from "../state/budget.js";
import { DONE, type DeviceState, ERASED_HERE, forget, type Round } from "../state/state.js";
import { checkKeys, type KeySet, keySetHash, type RoundKeys } from "../task/keys.js";
import { chooseRound, forgottenAfter, opens, takenFrom, at } from "../task/schedule.js";
import type { Session } from "./session.js";

/** A round's submission as it is stored; `used` is false if the round was answered before. */
export interface Stored {
  readonly round: number;
  readonly entry: Round;
  readonly used: boolean;
}

/** Draw and store the answers to a round, unless it was answered before: then the first answers stay. */
export async function keep(
  session: Session,
  answers: Answers,
  wanted: number | undefined,
  atOnce: boolean,
): Promise<Stored> {
  const now = session.clock();
  const round = chooseRound(session.task.schedule, wanted, now);
  const early = now < takenFrom(session.task.schedule, round);
  if (early && atOnce) {
    const begins = at(opens(session.task.schedule, round));
    throw new NoRound(
      `round ${round} begins at ${begins}; keep() stores answers to it, and resend() sends them then`,
    );
  }
  for (;;) {
    const seen = await session.store.change((state) => look(session, state, round, now));
    if (seen.entry !== undefined) return { round, entry: seen.entry, used: false };
    const drawn = drawReports(session.task, answers, round, seen.memories ?? {}, session.random);
    const fresh: Round = {
      id: hex(session.random(16)),
      reports: hex(joined(...drawn.reports)),
      sealed: false,
      overAt: forgottenAfter(session.task.schedule, round),
      ...(early ? { sendAt: opens(session.task.schedule, round) } : {}),
    };
    const entry = await session.store.change((state) => {
      // Checked again: another tab may have answered, spent the rest or opted out since.
      const now = look(session, state, round, session.clock());
      if (now.entry !== undefined) return now.entry;
      // Drawn from a memory that has changed: nothing of it was sent, so draw again.
      if (JSON.stringify(now.memories) !== JSON.stringify(seen.memories)) return undefined;
      const own = session.own(state);
      own.rounds[round] = fresh;
      charge(own, session.task, session.clock());
      if (Object.keys(drawn.memories).length > 0) {
        own.memories = drawn.memories;
        own.memoriesOverAt = forgottenAfter(session.task.schedule, session.task.schedule.rounds - 1);
      }
      return fresh;
    });
    // Another tab's entry has another id.
    if (entry !== undefined) return { round, entry, used: entry.id === fresh.id };
  }
}

/** Return what is stored of a round; throw if it may not be answered. */
function look(session: Session, state: DeviceState, round: number, now: number) {
  forget(state, now);
  if (state.optedOut) throw new OptedOut();
  const own = state.tasks[session.id];
  const entry = own?.rounds[round];
  if (entry !== undefined) return { entry: { ...entry } };
  if (round <= (own?.forgotten ?? -1)) {
    throw new NoRound(
      `round ${round} is over on this device: round ${own!.forgotten} was forgotten; check its clock`,
    );
  }
  checkLimits(state, session.task, session.id, now, session.limits);
  return { memories: own?.memories };
}

/** Return the round's keys, checked: those that were pinned, or those of the shuffler, pinned from now on. */
export async function roundKeys(session: Session, round: number, retrying: Retrying): Promise<RoundKeys> {
  const state = await session.store.read();
  const pinned = state.tasks[session.id]?.keys[round];
  const known = state.successions.map(ownHex);
  if (pinned !== undefined) {
    const signed = ({ body, signature }: { body: string; signature: string }) => ({
      body: ownHex(body),
      signature: ownHex(signature),
    });
    const keys: KeySet = {
      shuffler: signed(pinned.shuffler),
      analyzer: signed(pinned.analyzer),
      successions: [],
    };
    return checkKeys(session.task, round, keys, session.clock(), known);
  }
  const fetched = await retrying.retry((timeoutMs) =>
    session.calls.getRound(session.task.id, round, timeoutMs),
  );
  // Checked before they are pinned: bad keys must not stay in the way of good ones.
  const checked = checkKeys(session.task, round, fetched, session.clock(), known);
  await session.store.change((changed) => pin(session, changed, round, fetched, checked));
  return checked;
}

function pin(session: Session, state: DeviceState, round: number, keys: KeySet, checked: RoundKeys): void {
  const own = session.own(state);
  const hash = hex(keySetHash(keys));
  const first = own.keys[round]?.hash ?? hash;
  if (first !== hash) {
    const both = `it was first seen with the keys ${first.slice(0, 16)}, and now has ${hash.slice(0, 16)}`;
    throw new KeySetChanged(
      `round ${round}: ${both}; nothing was sealed for them, report it to the operator`,
    );
  }
  const signed = ({ body, signature }: { body: Uint8Array; signature: Uint8Array }) => ({
    body: hex(body),
    signature: hex(signature),
  });
  own.keys[round] = {
    shuffler: signed(keys.shuffler),
    analyzer: signed(keys.analyzer),
    hash,
    overAt: forgottenAfter(session.task.schedule, round),
  };
  const known = new Set([...state.successions, ...checked.successions.map(hex)]);
  if (known.size !== state.successions.length) state.successions = [...known];
}

/** Return the entry, sealed: what another tab sealed first stays, since it may have been sent. */
export async function sealed(session: Session, stored: Stored, keys: RoundKeys): Promise<Round> {
  const { reports, id } = stored.entry;
  if (reports === undefined) return stored.entry;
  const whole = ownHex(reports);
  const lengths = session.task.queries.map((query) => query.reportBytes);
  if (whole.length !== lengths.reduce((sum, each) => sum + each, 0)) {
    throw new StateError(
      "the stored reports do not have this task's length; the state is damaged, and nothing was sent",
    );
  }
  let end = 0;
  const parts = lengths.map((length) => whole.subarray(end, (end += length)));
  const envelope = hex(await sealSubmission(session.task, keys, parts, ownHex(id)));
  const entry = await session.store.change((state) => {
    const found = state.tasks[session.id]?.rounds[stored.round];
    if (found?.id === id && found.reports !== undefined) {
      delete found.reports;
      found.envelope = envelope;
      found.sealed = true;
    }
    return found === undefined ? undefined : { ...found };
  });
  if (entry !== undefined) return entry;
  throw new NoRound(`the answers to round ${stored.round} were erased on this device before they were sent`);
}

/** Return whether a sealed submission still waits; false if it was acknowledged; throw if it must not be sent. */
export async function isWaiting(session: Session, round: number, id: string): Promise<boolean> {
  const state = await session.store.read();
  if (state.optedOut) throw new OptedOut();
  const found = state.tasks[session.id]?.rounds[round];
  if (found?.id === id && found.envelope !== undefined) return true;
  checkDone(round, found?.outcome ?? ERASED_HERE);
  return false;
}

/** Record the outcome of a submission, and erase its bytes. */
export async function settle(session: Session, round: number, id: string, outcome: string): Promise<void> {
  await session.store.change((state) => {
    const found = state.tasks[session.id]?.rounds[round];
    if (found === undefined || found.id !== id || found.outcome !== undefined) return;
    found.outcome = outcome;
    delete found.envelope;
    delete found.reports;
  });
}

/** Return if the outcome of a round is that it was acknowledged; throw what it was else. */
export function checkDone(round: number, outcome: string): void {
  if (outcome === DONE) return;
  const error: HubbubError =
    outcome === ERASED_HERE
      ? new NoRound(
          `round ${round} was answered before, and the submission was erased here; answer the next round`,
        )
      : new Refusal(
          outcome,
          `round ${round} took no more submissions, so it was discarded; answer the next round`,
        );
  throw error;
}
