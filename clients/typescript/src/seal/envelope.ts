/** Seals reports: each for the analyzer and the hops, then all of them for the shuffler (HPKE, RFC 9180, base mode). */

import { Chacha20Poly1305 } from "@hpke/chacha20poly1305";
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { XWing } from "@hpke/hybridkem-x-wing";

import { type Bytes, fourBytes, joined, own, utf8 } from "../base/bytes.js";
import type { RoundKeys } from "../task/keys.js";
import type { SuiteName, Task } from "../task/task.js";

/** How many bytes a layer adds: the encapsulated key, and the tag. */
export const LAYER_BYTES: Readonly<Record<SuiteName, number>> = {
  "X25519-HKDF-SHA256-CHACHA20POLY1305": 48,
  "MLKEM768-X25519": 1136,
};

const FIRST_HOP = 2;

/** Where an envelope goes: part of the `info` of each of its layers. */
export interface Destination {
  readonly taskId: Bytes;
  readonly round: number;
  readonly keySetHash: Bytes;
}

export function destinationBytes(to: Destination): Bytes {
  return joined(to.taskId, fourBytes(to.round), to.keySetHash);
}

export function cipherSuite(name: SuiteName): CipherSuite {
  const kem = name === "MLKEM768-X25519" ? new XWing() : new DhkemX25519HkdfSha256();
  return new CipherSuite({ kem, kdf: new HkdfSha256(), aead: new Chacha20Poly1305() });
}

/** Return one layer: the encapsulated key, then the ciphertext. */
export async function sealLayer(
  suite: CipherSuite,
  publicKey: Uint8Array,
  info: Uint8Array,
  content: Uint8Array,
): Promise<Bytes> {
  const recipientPublicKey = await suite.kem.deserializePublicKey(own(publicKey));
  const { enc, ct } = await suite.seal({ recipientPublicKey, info: own(info) }, own(content));
  return joined(new Uint8Array(enc), new Uint8Array(ct));
}

/** Return the length of every submission's envelope. */
export function envelopeBytes(task: Task): number {
  const layer = LAYER_BYTES[task.suite];
  const layers = 1 + task.identities.hops.length;
  return task.queries.reduce((sum, query) => sum + query.reportBytes + layers * layer, layer);
}

/** Return the envelope of a submission: what is stored, and sent in every try. */
export async function sealSubmission(
  task: Task,
  keys: RoundKeys,
  reports: readonly Uint8Array[],
  submissionId: Uint8Array,
): Promise<Bytes> {
  const suite = cipherSuite(task.suite);
  const to = destinationBytes({ taskId: task.id, round: keys.round, keySetHash: keys.hash });
  const inners = await Promise.all(
    reports.map(async (report, query) => {
      const index = fourBytes(query);
      let inner = await sealLayer(
        suite,
        keys.analyzer,
        joined(utf8("hubbub/v1 analyzer"), to, index),
        report,
      );
      for (let place = keys.hops.length - 1; place >= 0; place--) {
        const info = joined(utf8("hubbub/v1 hop"), fourBytes(FIRST_HOP + place), to, index);
        inner = await sealLayer(suite, keys.hops[place]!, info, inner);
      }
      return inner;
    }),
  );
  const info = joined(utf8("hubbub/v1 shuffler"), to, submissionId);
  return sealLayer(suite, keys.shuffler, info, joined(...inners));
}
