/** Verifies the cases in a file of JSON, and prints the outcome of each: `node verify.js CASES`. */

import { readFile } from "node:fs/promises";

import { type Case, verifyCases } from "./verifying.js";

const cases = JSON.parse(await readFile(process.argv[2]!, "utf8")) as Case[];
console.log(JSON.stringify(await verifyCases(cases)));
