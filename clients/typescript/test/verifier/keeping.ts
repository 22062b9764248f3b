/** Whether noise keeps each of the (ε, δ) in a file of JSON: `node keeping.js CASES`. */

import { readFile } from "node:fs/promises";

import { type Beside, keeps } from "../../verify/certificate/noise.js";

interface Case {
  readonly beside: Beside;
  /** Each ε and δ. */
  readonly asked: readonly (readonly [number, number])[];
}

const cases = JSON.parse(await readFile(process.argv[2]!, "utf8")) as Case[];
console.log(
  JSON.stringify(cases.map(({ beside, asked }) => asked.map(([epsilon, delta]) => keeps(beside, epsilon, delta)))),
);
