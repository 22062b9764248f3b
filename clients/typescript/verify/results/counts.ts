/** The counts in a file of results: their form, and the digest by which a certificate binds them. */

import { sha256 } from "@noble/hashes/sha2.js";

import { fourBytes, fromBase64, hex, utf8 } from "../../src/base/bytes.js";
import type { Json } from "../../src/base/canonical.js";
import type { Query, Task } from "../../src/task/task.js";
import { Refused, shown } from "../base/refused.js";
import { isMembers, type Members, type Value } from "../base/strict.js";
import { reportSymbols } from "../certificate/added.js";
import type { Certificate } from "../certificate/certificate.js";
import { oddMembers } from "./compare.js";

const LABEL = utf8("hubbub/v1 counts");
const REQUIRED = ["name", "state", "reports", "valid", "left_out"];

/** A query's counted batch: its tally, which is null if it is withheld, and the dummies in it. */
export interface Counted {
  readonly valid: number;
  readonly dummies: number;
  readonly counts: readonly number[] | null;
  /** The earlier rounds that its estimates follow from too. */
  readonly rounds: readonly number[];
}

export function differ(name: string, what: string): Refused {
  return new Refused("counts", `${name}: ${what}`);
}

function whole(name: string, value: Value | undefined, what: string): number {
  if (typeof value !== "number" || value < 0)
    throw differ(name, `${what} must be a whole number from 0, but is ${shown(value)}`);
  return value;
}

/** Return the counts of all queries, checked against the certificate's numbers and its digest. */
export async function readCounts(queries: Value | undefined, certificate: Certificate): Promise<Counted[]> {
  const { task, body, round } = certificate;
  if (!Array.isArray(queries) || queries.length !== task.queries.length)
    throw differ("queries", `the certificate has ${task.queries.length} of them, in a list`);
  const found: Counted[] = [];
  for (const [place, query] of task.queries.entries()) {
    const stated = (body["queries"] as { [name: string]: Json }[])[place]!;
    found.push(await readCounted(task, query, queries[place]!, stated));
    const wanted = roundsBefore(certificate, place, found[place]!);
    if (JSON.stringify(found[place]!.rounds) !== JSON.stringify(wanted))
      throw differ(
        query.name,
        `its estimates follow from rounds ${wanted.join() || "none"} too, but others are stated`,
      );
  }
  if (digestOf(task, round, found) !== body["counts_digest"])
    throw new Refused("counts", "the counts differ from those of the certificate: they have another digest");
  return found;
}

async function readCounted(
  task: Task,
  query: Query,
  value: Value,
  certified: { readonly [name: string]: Json },
): Promise<Counted> {
  const { name } = query;
  if (!isMembers(value)) throw differ(name, "it is no object");
  const wrong = oddMembers(value, REQUIRED, Object.keys(value));
  if (wrong !== null) throw differ(name, wrong);
  if (value["name"] !== name) throw differ(name, `another query is in its place: ${shown(value["name"])}`);
  const leftOut = value["left_out"];
  if (!isMembers(leftOut)) throw differ(name, "left_out is no object");
  const left = Object.entries(leftOut).map(([reason, count]) => [
    reason,
    whole(name, count, `left_out.${reason}`),
  ]);
  const stated = certified["left_out"] as { [reason: string]: number };
  const [reports, valid] = ["reports", "valid"].map((each) => whole(name, value[each], each)) as [
    number,
    number,
  ];
  const bySame =
    left.length === Object.keys(stated).length &&
    left.every(([reason, count]) => Object.hasOwn(stated, reason!) && stated[reason!] === count);
  if (reports !== certified["reports"] || valid !== certified["valid"] || !bySame)
    throw differ(name, "its reports, valid reports or those left out are not those that are certified");
  if (value["state"] !== certified["state"])
    throw differ(name, `it is ${shown(value["state"])}, but ${shown(certified["state"])} by the certificate`);
  const dummies = query.noise === null ? task.privacy.dummies : (certified["dummies"] as number);
  if (value["state"] !== "published") {
    if (Object.hasOwn(value, "tally")) throw differ(name, "it is withheld, so it has no tally");
    return { valid, dummies, counts: null, rounds: [] };
  }
  const { counts, rounds } = readTally(name, value["tally"]);
  return { valid, dummies, counts: await unpacked(query, counts, valid + dummies), rounds };
}

function readTally(
  name: string,
  tally: Value | undefined,
): { counts: Uint8Array<ArrayBuffer>; rounds: number[] } {
  if (!isMembers(tally)) throw differ(name, "its tally is missing");
  const wrong = oddMembers(tally, ["counts", "rounds"]);
  if (wrong !== null) throw differ(name, `tally: ${wrong}`);
  const { counts, rounds } = tally as Members;
  if (!Array.isArray(rounds)) throw differ(name, "tally.rounds is no list");
  const numbers = rounds.map((each, place) => whole(name, each, `tally.rounds[${place}]`));
  // As Python's reader: whole groups of four, and nothing else.
  if (
    typeof counts !== "string" ||
    !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(counts)
  )
    throw differ(name, "its counts are not in base64");
  if (counts === "") throw differ(name, "its counts are missing");
  return { counts: fromBase64(counts), rounds: numbers };
}

/** Return the counts by symbol; of hashed answers, the cells that were reported, sorted. */
async function unpacked(query: Query, bytes: Uint8Array<ArrayBuffer>, valid: number): Promise<number[]> {
  const { name, randomizer } = query;
  if (randomizer.mechanism === "hashed")
    return cellsOf(name, bytes, valid, randomizer.cells * randomizer.rows);
  const symbols = reportSymbols(query);
  if (bytes.length !== 8 * symbols)
    throw differ(name, `it has counts of ${bytes.length} bytes, not of ${symbols} symbols`);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const counts = Array.from({ length: symbols }, (_, symbol) => view.getBigInt64(8 * symbol, true));
  if (counts.some((each) => each < 0n || each > BigInt(valid)))
    throw differ(name, `its counts are not from 0 to ${valid}`);
  const sum = counts.reduce((so, each) => so + each, 0n);
  if (randomizer.mechanism !== "unary" && sum !== BigInt(valid))
    throw differ(name, `its counts add up to ${sum}, but ${valid} reports and dummies were counted`);
  return counts.map(Number);
}

async function cellsOf(
  name: string,
  table: Uint8Array<ArrayBuffer>,
  valid: number,
  most: number,
): Promise<number[]> {
  const planes = await inflated(name, table, 4 * valid);
  const cells = new Array<number>(valid);
  let cell = 0;
  for (let place = 0; place < valid; place++) {
    for (let plane = 3, gap = 0; plane >= 0; plane--) {
      gap = gap * 256 + planes[plane * valid + place]!;
      if (plane === 0) cell += gap;
    }
    cells[place] = cell;
  }
  if (cell >= most && valid > 0) throw differ(name, "its table has a cell that there is not");
  return cells;
}

/** Return the bytes of a zlib stream that has exactly so many; no more are ever held. */
async function inflated(name: string, bytes: Uint8Array<ArrayBuffer>, length: number): Promise<Uint8Array> {
  const wrong = differ(name, `its table is damaged, or does not have ${length / 4} cells`);
  const found = new Uint8Array(length);
  let at = 0;
  try {
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > length) {
        await reader.cancel();
        throw wrong;
      }
      found.set(value, at);
      at += value.length;
    }
  } catch {
    throw wrong;
  }
  if (at !== length) throw wrong;
  return found;
}

function digestOf(task: Task, round: number, counted: readonly Counted[]): string {
  const hash = sha256.create();
  hash.update(LABEL).update(new Uint8Array(1)).update(task.id).update(fourBytes(round));
  counted.forEach((each, place) => {
    const counts = each.counts ?? [];
    hash.update(fourBytes(place)).update(eightBytes([each.valid, each.dummies]));
    hash.update(new Uint8Array([each.counts === null ? 0 : 1])).update(eightBytes([counts.length]));
    hash.update(eightBytes(counts));
  });
  return hex(hash.digest());
}

function eightBytes(numbers: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(8 * numbers.length);
  const view = new DataView(bytes.buffer);
  numbers.forEach((each, place) => view.setBigUint64(8 * place, BigInt(each)));
  return bytes;
}

/** Return the earlier rounds that a longitudinal query's estimates follow from: counted, and published. */
function roundsBefore(certificate: Certificate, place: number, counted: Counted): number[] {
  const { body, round, task, uncounted } = certificate;
  if (task.queries[place]!.question.kind !== "longitudinal" || counted.counts === null) return [];
  const history = (body["all_rounds"] as { [name: string]: Json })["history"] as unknown as {
    round: number;
    queries: { valid: number }[];
  }[];
  const never = new Set(uncounted);
  return history
    .filter((each) => each.round < round && !never.has(each.round))
    .filter((each) => each.queries[place]!.valid >= task.minimumReports)
    .map((each) => each.round)
    .sort((one, other) => one - other);
}
