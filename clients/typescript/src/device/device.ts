/** A device: it randomizes answers, seals them, and submits them until they are acknowledged. */

import { type Bytes, hex, ownHex } from "../base/bytes.js";
import { NoRound, Refusal } from "../base/errors.js";
import { OVER } from "../calls/calls.js";
import type { Retrying } from "../calls/retrying.js";
import type { Answers } from "../queries/encode.js";
import type { Destination } from "../seal/envelope.js";
import { type Budget, budgetOf } from "../state/budget.js";
import { DONE, eraseMemories, eraseSubmissions, forget } from "../state/state.js";
import { takenFrom } from "../task/schedule.js";
import type { Task } from "../task/task.js";
import { dropCredential, proven } from "./enrollment.js";
import { type Preview, preview } from "./preview.js";
import { type DeviceOptions, Session, type Surroundings } from "./session.js";
import * as work from "./work.js";

/** A round's submission is on the shuffler's disk. */
export interface Receipt {
  readonly round: number;
  /** False if the round was answered before: the first answers count, and those of this call were ignored. */
  readonly used: boolean;
  /** False if it had been acknowledged before, so that this call sent nothing. */
  readonly sent: boolean;
}

export interface Resent {
  readonly receipts: readonly Receipt[];
  /** Why other submissions were not acknowledged, by round. */
  readonly errors: readonly { readonly round: number; readonly error: unknown }[];
}

export class Device {
  private constructor(private readonly session: Session) {}

  /** Make a device, if the task is signed by the operator and the shuffler whose keys are given. */
  static async open(options: DeviceOptions, around: Surroundings): Promise<Device> {
    return new Device(await Session.open(options, around));
  }

  get task(): Task {
    return this.session.task;
  }

  /** Randomize, store, seal and send the answers to the current round, or to `round`.
   *
   * A round is answered once. If this throws Refusal or Unreachable, the answers stay stored; resend() sends them. */
  async submit(answers: Answers, round?: number): Promise<Receipt> {
    const retrying = this.session.begun();
    const stored = await work.keep(this.session, answers, round, true);
    return this.deliver(stored, retrying);
  }

  /** Randomize and store the answers, without any network; resend() sends them. Rounds to come are taken too. */
  async keep(answers: Answers, round?: number): Promise<{ readonly round: number; readonly used: boolean }> {
    const stored = await work.keep(this.session, answers, round, false);
    return { round: stored.round, used: stored.used };
  }

  /** Send every stored submission whose round has begun; nothing is drawn again. */
  async resend(): Promise<Resent> {
    const { session } = this;
    const retrying = session.begun();
    const waiting = await session.store.change((state) => {
      forget(state, session.clock());
      const rounds = Object.entries(state.tasks[session.id]?.rounds ?? {});
      return rounds
        .filter(([, entry]) => entry.outcome === undefined)
        .map(([round, entry]) => ({ round, entry: { ...entry } }));
    });
    const receipts: Receipt[] = [];
    const errors: { round: number; error: unknown }[] = [];
    for (const { round: text, entry } of waiting) {
      const round = Number(text);
      const now = session.clock();
      if (now < takenFrom(session.task.schedule, round) || now < (entry.sendAt ?? 0)) continue;
      try {
        receipts.push(await this.deliver({ round, entry, used: true }, retrying));
      } catch (error) {
        errors.push({ round, error });
      }
    }
    return { receipts, errors };
  }

  /** Return the rounds whose submissions are stored and not acknowledged yet. */
  async waiting(): Promise<number[]> {
    const rounds = Object.entries((await this.session.store.read()).tasks[this.session.id]?.rounds ?? {});
    return rounds.filter(([, entry]) => entry.outcome === undefined).map(([round]) => Number(round));
  }

  /** Show what would be sent, without sending, storing or spending anything. */
  async preview(answers: Answers, round?: number): Promise<Preview> {
    return preview(this.session, answers, round);
  }

  async budget(): Promise<Budget> {
    return budgetOf(await this.session.store.read(), this.session.id, this.session.clock());
  }

  async isOptedOut(): Promise<boolean> {
    return (await this.session.store.read()).optedOut;
  }

  /** Take no answers from now on, and erase what is not acknowledged yet, of all tasks. */
  async optOut(): Promise<void> {
    await this.session.store.change((state) => {
      state.optedOut = true;
      eraseSubmissions(state, "unsettled");
    });
  }

  async optIn(): Promise<void> {
    await this.session.store.change((state) => {
      state.optedOut = false;
    });
  }

  /** Erase reports, sealed bytes, ids and states, of all tasks.
   *
   * Which rounds were answered stays until they are over, and what was spent stays: else a round would be answered
   * twice. Of a question over time it stays that it was asked, and from then on nothing depends on any answer. */
  async wipe(): Promise<void> {
    await this.session.store.change((state) => {
      eraseSubmissions(state, "all");
      Object.values(state.tasks).forEach(eraseMemories);
    });
  }

  close(): void {
    this.session.store.close();
  }

  private async deliver(stored: work.Stored, retrying: Retrying): Promise<Receipt> {
    const { round, used } = stored;
    if (stored.entry.outcome !== undefined) {
      work.checkDone(round, stored.entry.outcome);
      return { round, used, sent: false };
    }
    try {
      return { round, used, sent: await this.sealAndSend(stored, retrying) };
    } catch (error) {
      // Only a round that takes no more erases the submission; after anything else it may be sent again.
      if (error instanceof Refusal && OVER.has(error.reason)) {
        await work.settle(this.session, round, stored.entry.id, error.reason);
      }
      throw error;
    }
  }

  /** Return whether this call sent it: another tab may have been faster. */
  private async sealAndSend(stored: work.Stored, retrying: Retrying): Promise<boolean> {
    const { session } = this;
    const keys = await work.roundKeys(session, stored.round, retrying);
    const entry = await work.sealed(session, stored, keys);
    if (entry.outcome !== undefined) {
      work.checkDone(stored.round, entry.outcome);
      return false;
    }
    if (entry.envelope === undefined)
      throw new NoRound(`the answers to round ${stored.round} were erased on this device`);
    const to = { taskId: session.task.id, round: stored.round, keySetHash: keys.hash };
    const sent = await this.send(to, ownHex(entry.id), ownHex(entry.envelope), retrying);
    if (sent) await work.settle(session, stored.round, entry.id, DONE);
    return sent;
  }

  private async send(to: Destination, id: Bytes, envelope: Bytes, retrying: Retrying): Promise<boolean> {
    const { session } = this;
    const attempt = async (): Promise<boolean> => {
      const submission = await proven(session, to, id, envelope, retrying);
      return retrying.retry(async (timeoutMs) => {
        // Before each try: somebody may have opted out, or another tab may have sent it.
        if (!(await work.isWaiting(session, to.round, hex(id)))) return false;
        await session.calls.submit(to, submission, timeoutMs);
        return true;
      });
    };
    try {
      return await attempt();
    } catch (error) {
      const gone =
        error instanceof Refusal && error.reason === "not_enrolled" && session.task.mode === "enrolled";
      if (!gone) throw error;
      // The master key of the credential is gone: the same ticket gives another one, once.
      await dropCredential(session);
      return await attempt();
    }
  }
}
