/** Which certificates and results given files have. A file of another kind is skipped, as in a folder. */

import { type Bytes, own } from "../src/base/bytes.js";
import { canonical } from "../src/base/canonical.js";
import { DocumentError } from "../src/base/errors.js";
import { INCLUSION } from "../src/log/proofs.js";
import { NotJson, Refused, shown } from "./base/refused.js";
import {
  beginsWith,
  isMembers,
  LARGEST_RESULTS,
  type Members,
  plain,
  readStrict,
  type Value,
} from "./base/strict.js";
import { digestOf, otherThanCertificate } from "./certificate/certificate.js";
import { type LogProofs, readProofs } from "./log.js";
import { difference, oddMembers } from "./results/compare.js";

const RESULTS = "hubbub-results/1";
const SERIES = "hubbub-series/1";
const TIMES = ["round_begins", "round_ends"];
/** Bytes at the beginning of a file in which results name their format. */
const BEGINNING = 200;

/** A file: its name for messages, and its bytes. */
export interface GivenFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A certificate, and the file and place that it was found in first. */
export interface Held {
  readonly where: string;
  readonly digest: string;
  readonly document: Bytes;
  /** The places of all files that have it: two may have one name. */
  readonly files: readonly number[];
}

/** A round's results as they were read, and the digest of the certificate in them. */
export interface GivenResults {
  readonly where: string;
  /** The place of its file among those that were given. */
  readonly file: number;
  readonly document: Members;
  readonly digest: string;
}

/** One thing that is wrong; `round` if it is about one. */
export interface Problem {
  readonly where: string | null;
  readonly round: number | null;
  readonly because: string;
  readonly message: string;
}

export interface Given {
  readonly certificates: readonly Held[];
  readonly results: readonly GivenResults[];
  readonly proofs: LogProofs;
  readonly skipped: readonly string[];
  readonly problems: readonly Problem[];
}

export function readFiles(files: readonly GivenFile[]): Given {
  const certificates = new Map<string, { where: string; document: Bytes; files: number[] }>();
  const results: GivenResults[] = [];
  const [skipped, problems]: [string[], Problem[]] = [[], []];
  const hold = (where: string, file: number, document: Bytes): string => {
    const digest = digestOf(document);
    const held = certificates.get(digest);
    if (held === undefined) certificates.set(digest, { where, document, files: [file] });
    else if (!held.files.includes(file)) held.files.push(file);
    return digest;
  };
  const inside: [string, number, Members, Bytes][] = [];
  for (const [file, { name, bytes }] of files.entries()) {
    if (isProof({ name, bytes })) continue;
    try {
      const value = valueOf(bytes);
      const found = value === undefined ? [] : resultsIn(name, value);
      if (found.length > 0) for (const each of found) inside.push([each[0], file, each[1], each[2]]);
      else if (value === undefined || otherThanCertificate(value)) skipped.push(name);
      else hold(name, file, own(bytes));
    } catch (error) {
      problems.push(problemOf(error, name));
    }
  }
  // Last: a certificate that has a file of its own is named by it.
  for (const [where, file, document, certificate] of inside)
    results.push({ where, file, document, digest: hold(where, file, certificate) });
  const held = [...certificates].map(([digest, each]) => ({ digest, ...each }));
  return { certificates: held, results, proofs: readProofs(files.filter(isProof)), skipped, problems };
}

/** Whether a file is a proof of a transparency log, by its name or by its first line. */
function isProof({ name, bytes }: GivenFile): boolean {
  return name.endsWith(".tlog-proof") || beginsWith(bytes, INCLUSION, INCLUSION.length);
}

export function problemOf(error: unknown, where: string | null, round: number | null = null): Problem {
  if (error instanceof Refused || error instanceof DocumentError)
    return { where, round, because: error.because, message: error.message };
  // A form that nothing above foresaw is refused too, as nothing after it was checked.
  if (error instanceof TypeError || error instanceof RangeError)
    return { where, round, because: "form", message: "it has a form that is not read here" };
  throw error;
}

/** Return what a file says; undefined if it is not JSON at all, and does not begin as results or an object. */
function valueOf(bytes: Uint8Array): Value | undefined {
  try {
    return readStrict(bytes, LARGEST_RESULTS);
  } catch (error) {
    const names = ["hubbub-results/", "hubbub-series/", "hubbub-certificate/"];
    const looksSo = names.some((name) => beginsWith(bytes, name, BEGINNING)) || beginsWith(bytes, "{", 1);
    if (error instanceof NotJson && !looksSo) return undefined;
    throw error;
  }
}

function isOf(format: string, value: Value): value is Members {
  if (!isMembers(value)) return false;
  const named = value["format"];
  return typeof named === "string" && named.startsWith(format.slice(0, -1));
}

/** Return each round's results in a document: its place, what it says, and the bytes of its certificate. */
function resultsIn(name: string, value: Value): [string, Members, Bytes][] {
  if (isOf(RESULTS, value)) return [[name, value, certificateIn(value)]];
  if (!isOf(SERIES, value)) return [];
  checkFormat(value, SERIES);
  const wrong = oddMembers(value, ["format", "rounds", "task"]);
  const rounds = value["rounds"];
  if (wrong !== null || !Array.isArray(rounds) || rounds.length === 0)
    throw new Refused("form", `these results do not have the members of ${SERIES}, or no round`);
  return rounds.map((each, place) => {
    const where = `${name}, rounds[${place}]`;
    if (!isOf(RESULTS, each)) throw new Refused("form", `${where} is no file of results`);
    const found = certificateIn(each);
    const other = difference(plain(value["task"]!), each["task"], "task");
    if (other !== null) throw new Refused("form", `${where} is of another task than the file: ${other}`);
    return [where, each, found];
  });
}

function checkFormat(value: Members, format: string): void {
  if (value["format"] !== format)
    throw new Refused("format", `it names the format ${shown(value["format"])}: ${format} is read here`);
}

function certificateIn(value: Members): Bytes {
  checkFormat(value, RESULTS);
  const needed = ["certificate", "format", "queries", "round", "task"];
  const wrong = oddMembers(value, needed, ["sums", ...TIMES]);
  if (wrong !== null)
    throw new Refused("form", `these results do not have the members of ${RESULTS}: ${wrong}`);
  const certificate = value["certificate"]!;
  const body = isMembers(certificate) ? certificate["body"] : undefined;
  if (!isMembers(body)) throw new Refused("form", "these results have no readable certificate");
  if (body["format"] !== "hubbub-certificate/1")
    throw new Refused("format", `the certificate in it is of the format ${shown(body["format"])}`);
  // The file has white space for people. In canonical form the certificate has the analyzer's bytes again.
  return canonical(plain(certificate));
}
