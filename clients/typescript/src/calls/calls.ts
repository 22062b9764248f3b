/** The calls to the shuffler, as Connect's unary calls over HTTPS; refusals and lost answers become errors. */

import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";

import { type Bytes, fromUtf8, isSame, own } from "../base/bytes.js";
import { HubbubError, Refusal, Unreachable } from "../base/errors.js";
import type { FeedPage } from "../feed/feed.js";
import {
  EnrollRequestSchema,
  EnrollResponseSchema,
  GetFeedRequestSchema,
  GetFeedResponseSchema,
  GetRoundRequestSchema,
  GetRoundResponseSchema,
  SubmitRequestSchema,
  SubmitResponseSchema,
} from "../gen/hubbub/protos/v1/submission_pb.js";
import type { Destination } from "../seal/envelope.js";
import type { Credential } from "../seal/proofs.js";
import type { KeySet, SignedBody } from "../task/keys.js";
import type { Post } from "./transport.js";

/** Reasons for which the same bytes are sent again. */
export const TRANSIENT: ReadonlySet<string> = new Set(["overloaded", "not_ready", "disk_full"]);
/** Reasons after which a submission is discarded: its round takes no more. */
export const OVER: ReadonlySet<string> = new Set(["too_late", "erased", "round_full", "task_ended"]);

/** The lengths of a credential's parts. */
const ID_BYTES = 44;
const KEY_BYTES = 32;

const LONGEST_WAIT_MS = 86_400_000;
const LONGEST_MESSAGE = 500;

export interface SentSubmission {
  readonly id: Bytes;
  readonly envelope: Bytes;
  readonly credential?: Bytes;
  readonly proof?: Bytes;
}

export class Calls {
  constructor(
    private readonly address: string,
    private readonly post: Post,
  ) {
    const url = URL.canParse(address) ? new URL(address) : null;
    if (url?.protocol !== "https:" || url.pathname !== "/" || url.username !== "" || url.search !== "") {
      throw new HubbubError(`the shuffler's address is ${address.slice(0, 80)}; give https://HOST:PORT`);
    }
  }

  async getRound(taskId: Bytes, round: number, timeoutMs: number): Promise<KeySet> {
    const request = create(GetRoundRequestSchema, { taskId, round });
    const body = toBinary(GetRoundRequestSchema, request);
    const { keySet } = await this.call("GetRound", GetRoundResponseSchema, body, timeoutMs);
    const signed = (record: { document?: SignedBody } | undefined): SignedBody => ({
      body: own(record?.document?.body ?? new Uint8Array()),
      signature: own(record?.document?.signature ?? new Uint8Array()),
    });
    return {
      shuffler: signed(keySet?.shuffler as { document?: SignedBody } | undefined),
      analyzer: signed(keySet?.analyzer as { document?: SignedBody } | undefined),
      successions: (keySet?.successions ?? []).map(own),
    };
  }

  /** Return entries of the feed from a number on, as many as fit into an answer. */
  async getFeed(first: number, timeoutMs: number): Promise<FeedPage> {
    const body = toBinary(GetFeedRequestSchema, create(GetFeedRequestSchema, { first }));
    const { entries, successions } = await this.call("GetFeed", GetFeedResponseSchema, body, timeoutMs);
    return { entries: entries.map(own), successions: successions.map(own) };
  }

  async enroll(ticket: Bytes, deviceKey: Bytes, timeoutMs: number): Promise<Credential> {
    const request = create(EnrollRequestSchema, { redemptions: [{ ticket, deviceKey }] });
    const body = toBinary(EnrollRequestSchema, request);
    const { answers } = await this.call("Enroll", EnrollResponseSchema, body, timeoutMs);
    const answer = answers[0]?.answer;
    if (answers.length === 1 && answer?.case === "refusal") {
      const { reason, message, retryAfterMs } = answer.value;
      throw new Refusal(reason, plain(message), wait(Number(retryAfterMs)));
    }
    const found = answers.length === 1 && answer?.case === "credential" ? answer.value : null;
    // Checked before they are stored: a key of another length could make no proof, in any later call.
    if (found === null || found.id.length !== ID_BYTES || found.key.length !== KEY_BYTES) {
      throw new Unreachable("the shuffler's answer to a ticket is no credential; try again");
    }
    return { id: own(found.id), key: own(found.key) };
  }

  async submit(to: Destination, submission: SentSubmission, timeoutMs: number): Promise<void> {
    const request = create(SubmitRequestSchema, { destination: { ...to }, submission: { ...submission } });
    const body = toBinary(SubmitRequestSchema, request);
    const { receipt } = await this.call("Submit", SubmitResponseSchema, body, timeoutMs);
    if (receipt === undefined || receipt.round !== to.round || !isSame(receipt.submissionId, submission.id)) {
      throw new Unreachable("the receipt is another submission's; the submission is kept, try again");
    }
  }

  private async call<T extends DescMessage>(
    name: string,
    schema: T,
    body: Uint8Array,
    timeoutMs: number,
  ): Promise<MessageShape<T>> {
    const url = new URL(`/hubbub.v1.SubmissionService/${name}`, this.address).href;
    const headers = {
      "content-type": "application/proto",
      "connect-protocol-version": "1",
      "connect-timeout-ms": String(Math.ceil(timeoutMs)),
    };
    let answer;
    try {
      answer = await this.post(url, own(body), headers, timeoutMs);
    } catch (error) {
      if (error instanceof HubbubError) throw error;
      throw new Unreachable(`the shuffler at ${this.address} does not answer: ${said(error)}`);
    }
    if (answer.status !== 200) throw refusalOf(answer.status, answer.header, answer.body);
    try {
      return fromBinary(schema, answer.body);
    } catch {
      throw new Unreachable("the shuffler's answer cannot be read; try again");
    }
  }
}

function said(error: unknown): string {
  return error instanceof Error ? plain(`${error.name}: ${error.message}`) : "no answer";
}

function refusalOf(
  status: number,
  header: (name: string) => string | null,
  body: Uint8Array,
): Refusal | Unreachable {
  const reason = header("hubbub-reason");
  const after = wait(Number(header("hubbub-retry-after-ms")));
  const message = messageOf(body) ?? `the answer has the status ${status}`;
  if (reason !== null) return new Refusal(reason.slice(0, 40), message, after);
  // A proxy in between says so of itself; the same bytes may be taken later.
  if (status === 408 || status === 429 || (status >= 500 && status !== 501))
    return new Unreachable(message, after);
  return new Refusal("none", `${message}; it has no reason: look whether the address is the shuffler's`);
}

function messageOf(body: Uint8Array): string | null {
  try {
    const found = JSON.parse(fromUtf8(body.subarray(0, 65_536))) as { message?: unknown };
    return typeof found.message === "string" ? plain(found.message) : null;
  } catch {
    return null;
  }
}

/** Return words of another party as one line without controls. */
function plain(words: string): string {
  return words.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ").slice(0, LONGEST_MESSAGE);
}

function wait(milliseconds: number): number {
  return Number.isFinite(milliseconds) ? Math.min(Math.max(milliseconds, 0), LONGEST_WAIT_MS) : 0;
}
