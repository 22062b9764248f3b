/** The proof that a device has the key of its credential: BLAKE2b with that key. */

import { blake2b } from "@noble/hashes/blake2.js";

import { type Bytes, joined, own, utf8 } from "../base/bytes.js";
import { destinationBytes, type Destination } from "./envelope.js";

const LABEL = utf8("hubbub/v1 submission proof\0");

export interface Credential {
  readonly id: Bytes;
  readonly key: Bytes;
}

export function proofOf(
  credential: Credential,
  to: Destination,
  submissionId: Uint8Array,
  envelope: Uint8Array,
): Bytes {
  const content = joined(LABEL, destinationBytes(to), submissionId, envelope);
  return own(blake2b(content, { dkLen: 16, key: credential.key }));
}
