/** Clients of others in Node: `node foreign.js FILE` makes the calls of a file, and prints what came of each.
 *
 * Each part of the file has the name of a client, an address and calls. */

import { readFile } from "node:fs/promises";

import type { Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { hex } from "../src/base/bytes.js";
import { type Call, callAll, type Outcome, unhex } from "./foreign_calls.js";

interface Part {
  readonly client: string;
  /** HOST:PORT */
  readonly address: string;
  readonly calls: readonly Call[];
}

const DEADLINE_MS = 270_000;

/** Return how Connect's client calls, by the name of a client. */
function transport(name: string, address: string, ca: Buffer): Transport | null {
  const common = { baseUrl: `https://${address}`, nodeOptions: { ca }, defaultTimeoutMs: DEADLINE_MS };
  switch (name) {
    case "connect-node by HTTP/2":
      return createConnectTransport({ ...common, httpVersion: "2" });
    case "connect-node by HTTP/2, JSON":
      return createConnectTransport({ ...common, httpVersion: "2", useBinaryFormat: false });
    case "connect-node by HTTP/1.1":
      return createConnectTransport({ ...common, httpVersion: "1.1" });
    case "connect-node by gRPC":
      return createGrpcTransport(common);
    default:
      return null;
  }
}

const camel = (name: string): string =>
  name.toLowerCase().replace(/(^|_)([a-z])/g, (_all, _before, letter: string) => letter.toUpperCase());

/** Make calls by grpc-js, one after the other. */
async function byGrpc(address: string, ca: Buffer, calls: readonly Call[]): Promise<Outcome[]> {
  const client = new Client(address, credentials.createSsl(ca));
  const same = (bytes: Buffer): Buffer => bytes;
  const outcomes: Outcome[] = [];
  for (const { method, message } of calls) {
    const path = `/hubbub.v1.SubmissionService/${method === "submit" ? "Submit" : "GetRound"}`;
    const deadline = Date.now() + DEADLINE_MS;
    outcomes.push(
      await new Promise<Outcome>((resolve) => {
        const answered = (error: ServiceError | null, answer?: Buffer): void => {
          if (error === null) return resolve({ answer: hex(Uint8Array.from(answer!)) });
          const reason = error.metadata.get("hubbub-reason")[0];
          resolve({ error: [camel(status[error.code]!), error.details, reason === undefined ? null : String(reason)] });
        };
        const bytes = Buffer.from(unhex(message));
        client.makeUnaryRequest(path, same, same, bytes, new Metadata(), { deadline }, answered);
      }),
    );
  }
  client.close();
  return outcomes;
}

const [, , file] = process.argv;
const { authority, parts } = JSON.parse(await readFile(file!, "utf8")) as { authority: string; parts: Part[] };
const ca = await readFile(authority);
const outcomes: Outcome[][] = [];
for (const { client, address, calls } of parts) {
  const found = transport(client, address, ca);
  if (found === null && client !== "grpc-js") throw new Error(`no client has the name ${client}`);
  outcomes.push(found === null ? await byGrpc(address, ca, calls) : await callAll(found, calls));
}
console.log(JSON.stringify(outcomes));
// Connections that a client keeps would keep the program.
process.exit(0);
