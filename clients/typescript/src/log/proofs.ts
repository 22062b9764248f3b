/** Proofs that a document is in a transparency log: RFC 9162's tree, in the form of c2sp.org/tlog-proof. */

import { sha256 } from "@noble/hashes/sha2.js";

import { fromStrictBase64, fromUtf8, isSame, joined } from "../base/bytes.js";
import { type Checkpoint, noProof, readCheckpoint } from "./notes.js";

/** How every such proof begins. */
export const INCLUSION = "c2sp.org/tlog-proof@v1";

/** Most bytes of a proof. */
export const LONGEST_PROOF = 196_608;

const INDEX = /^index (0|[1-9][0-9]{0,19})$/;

/** That the document with the leaf at `index` is in the log of a checkpoint; nothing of it is checked yet. */
export interface LoggedProof {
  readonly index: number;
  /** The hashes beside the leaf's way to the root. */
  readonly path: readonly Uint8Array[];
  readonly checkpoint: Checkpoint;
}

export function readProof(document: Uint8Array): LoggedProof {
  if (document.length > LONGEST_PROOF) throw noProof(`it has more than ${LONGEST_PROOF} bytes`);
  let text: string;
  try {
    text = fromUtf8(document);
  } catch {
    throw noProof("it is not UTF-8");
  }
  const end = text.indexOf("\n\n");
  const [first, second, ...hashes] = text.slice(0, Math.max(end, 0)).split("\n");
  if (first !== INCLUSION) throw noProof(`it does not begin with ${INCLUSION}, or is not whole`);
  // An entry beyond the largest log is not in its tree, however many digits of it are lost here.
  const index = INDEX.exec(second ?? "")?.[1];
  if (index === undefined) throw noProof("its second line names no entry");
  const path = hashes.map((line) => {
    const hash = fromStrictBase64(line, 32);
    if (hash === null) throw noProof("a line of it is no hash");
    return hash;
  });
  return { index: Number(index), path, checkpoint: readCheckpoint(text.slice(end + 2)) };
}

/** Return the hash of a document's leaf. */
export function leafOf(document: Uint8Array): Uint8Array {
  return sha256(joined(new Uint8Array([0]), document));
}

/** Return whether a proof leads from a leaf to the root of its checkpoint (RFC 9162, section 2.1.3.2). */
export function isProofOf(proof: LoggedProof, leaf: Uint8Array): boolean {
  const { size, root } = proof.checkpoint;
  if (proof.index >= size) return false;
  let [place, last] = [proof.index, size - 1];
  let node = leaf;
  for (const beside of proof.path) {
    if (last === 0) return false;
    const isRight = place % 2 === 1 || place === last;
    node = sha256(joined(new Uint8Array([1]), ...(isRight ? [beside, node] : [node, beside])));
    // The last node of a level has no neighbor where its place is even: it goes up unchanged.
    if (isRight) while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)];
    [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
  }
  return last === 0 && isSame(node, root);
}
