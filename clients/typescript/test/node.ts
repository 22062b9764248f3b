/** Runs in Node what pages run in a browser, and prints the results.
 *
 * `node vectors.js FOLDERS` runs the vectors, each in the first folder that has it; with `--behavior STATES` what a
 * device promises, over files in that folder; with the name of a suite it prints an envelope in hex. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";

import { hex } from "../src/base/bytes.js";
import { FeedFileStore, FileStore } from "../src/state/files.js";
import type { SuiteName } from "../src/task/task.js";
import { behave } from "./behavior.js";
import { run, sealVector } from "./vectors.js";

const [, , folders, what, states] = process.argv;
const load = async (name: string): Promise<Uint8Array<ArrayBuffer>> => {
  const places = folders!.split(delimiter).map((folder) => join(folder, name));
  return new Uint8Array(await readFile(places.find(existsSync) ?? places[0]!));
};
if (what === undefined) {
  console.log(JSON.stringify(await run(load)));
} else if (what === "--behavior") {
  const place = (name: string): string => join(states!, name);
  const claims = behave(
    load,
    (name) => new FileStore(place(name)),
    (name) => new FeedFileStore(place(name)),
  );
  console.log(JSON.stringify(await claims));
} else {
  const vectors: unknown = JSON.parse(new TextDecoder().decode(await load("sealed.json")));
  console.log(JSON.stringify(hex(await sealVector(vectors, what as SuiteName))));
}
