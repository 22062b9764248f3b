/** Calls made by Connect's own client over any of its transports, and what came of each, in words of all clients. */

import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";

import { hex } from "../src/base/bytes.js";
import {
  GetRoundRequestSchema,
  GetRoundResponseSchema,
  SubmissionService,
  SubmitRequestSchema,
  SubmitResponseSchema,
} from "../src/gen/hubbub/protos/v1/submission_pb.js";

/** A call, whose message is in hex. */
export interface Call {
  readonly method: "getRound" | "submit";
  readonly message: string;
}

/** The answer in hex; or the error's code in its own spelling, its text, and the reason that came with it. */
export type Outcome = { readonly answer: string } | { readonly error: [string, string, string | null] };

export const unhex = (text: string): Uint8Array =>
  Uint8Array.from(text.match(/../g) ?? [], (two) => parseInt(two, 16));

const written = <T extends DescMessage>(schema: T, answer: MessageShape<T>): Outcome => ({
  answer: hex(Uint8Array.from(toBinary(schema, answer))),
});

/** Make calls one after the other. */
export async function callAll(transport: Transport, calls: readonly Call[]): Promise<Outcome[]> {
  const client = createClient(SubmissionService, transport);
  const outcomes: Outcome[] = [];
  for (const { method, message } of calls) {
    const bytes = unhex(message);
    try {
      outcomes.push(
        method === "submit"
          ? written(SubmitResponseSchema, await client.submit(fromBinary(SubmitRequestSchema, bytes)))
          : written(GetRoundResponseSchema, await client.getRound(fromBinary(GetRoundRequestSchema, bytes))),
      );
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      outcomes.push({ error: [Code[error.code], error.rawMessage, error.metadata.get("hubbub-reason")] });
    }
  }
  return outcomes;
}
