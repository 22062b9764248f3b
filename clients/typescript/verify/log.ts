/** Checks that a certificate and its task are in the transparency log that the task demands.
 *
 * A proof does not say which document it is of: it is of the one from which it leads to its checkpoint's root. So
 * proofs are found by what they prove, whatever their files are called. */

import type { Bytes } from "../src/base/bytes.js";
import { DocumentError } from "../src/base/errors.js";
import { checkLogged, type Logged, type LogPolicy, policyWords } from "../src/log/policy.js";
import { isProofOf, leafOf, type LoggedProof, readProof } from "../src/log/proofs.js";
import { Refused, type Why } from "./base/refused.js";

/** A proof, and the name of its file. */
interface GivenProof {
  readonly where: string;
  readonly proof: LoggedProof;
}

/** Proofs that a verifier has, and of each file that is none what is wrong with it. */
export interface LogProofs {
  readonly given: readonly GivenProof[];
  readonly unread: readonly string[];
}

/** Read files of proofs. What cannot be read is told, as another file may have the one that is needed. */
export function readProofs(files: readonly { readonly name: string; readonly bytes: Uint8Array }[]): LogProofs {
  const given: GivenProof[] = [];
  const unread: string[] = [];
  for (const { name, bytes } of files) {
    try {
      given.push({ where: name, proof: readProof(bytes) });
    } catch (error) {
      if (!(error instanceof DocumentError)) throw error;
      unread.push(`${name}: ${error.message}`);
    }
  }
  return { given, unread };
}

/** Where a certificate and its task are in the log, and the files of the proofs that show it. */
export interface LoggedRound {
  readonly policy: LogPolicy;
  readonly certificate: Logged;
  readonly task: Logged;
  readonly files: readonly string[];
}

interface Missing {
  readonly because: Why;
  readonly message: string;
}

type Outcome = { readonly logged: Logged; readonly where: string } | Missing;

/** Check both; throw a Refused that names each of them that is not shown to be in the log, and what to do. */
export function checkRoundLogged(
  policy: LogPolicy,
  certificate: Bytes,
  task: Bytes,
  proofs: LogProofs,
): LoggedRound {
  const [own, of] = [found(policy, certificate, proofs), found(policy, task, proofs)];
  if ("logged" in own && "logged" in of) {
    const files = [own.where, of.where];
    return { policy, certificate: own.logged, task: of.logged, files };
  }
  const problems = [
    ...problem(own, "the certificate", "CERTIFICATE"),
    ...problem(of, "its task", "TASK"),
  ];
  const demanded = `the task demands that both are in log ${policyWords(policy)}`;
  const lacking = problems.map((each) => each.message).join("; ");
  throw new Refused(
    problems[0]!.because,
    `it is right in itself, but ${demanded}, and not shown are: ${lacking}`,
  );
}

function problem(outcome: Outcome, what: string, file: string): Missing[] {
  if ("logged" in outcome) return [];
  const remedy = `make its proof with \`hubbub log prove LOG ${file}.json --out ${file}.tlog-proof\``;
  const message = `${what} (${outcome.message}): ${remedy}, and choose that file too`;
  return [{ because: outcome.because, message }];
}

function found(policy: LogPolicy, document: Bytes, { given, unread }: LogProofs): Outcome {
  const leaf = leafOf(document);
  const message = [`none of ${given.length} proofs is of it`, ...unread].join("; ");
  let wrong: Missing = { because: "proof", message };
  // One of them may have too few witnesses, and a later one enough.
  for (const { where, proof } of given.filter((each) => isProofOf(each.proof, leaf))) {
    try {
      return { logged: checkLogged(policy, leaf, proof), where };
    } catch (error) {
      if (!(error instanceof DocumentError)) throw error;
      wrong = { because: error.because, message: `${where}: ${error.message}` };
    }
  }
  return wrong;
}

/** Say where both are in the log, and who vouches for it. */
export function loggedWords({ policy, certificate, task }: LoggedRound): string {
  const place = ({ index, size, witnesses }: Logged): string =>
    `entry ${index} of ${size}, signed by ${witnesses.join(", ")}`;
  const many = `${policy.threshold} of ${policy.witnesses.length} witnesses`;
  const both = `the certificate is ${place(certificate)}; the task is ${place(task)}`;
  return `it is in log ${policy.log.name}, as its task demands with ${many}: ${both}`;
}
