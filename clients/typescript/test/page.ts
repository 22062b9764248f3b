/** What tests ask of a page: the vectors, a device, and how long it takes to prepare and seal. */

import { hex } from "../src/base/bytes.js";
import { systemRandom } from "../src/base/random.js";
import {
  type DeviceOptions,
  IndexedFeedStore,
  IndexedStore,
  openDevice,
  postByFetch,
  readTask,
} from "../src/browser.js";
import { type Answers, drawReports } from "../src/queries/encode.js";
import { sealSubmission } from "../src/seal/envelope.js";
import type { SuiteName } from "../src/task/task.js";
import { behave } from "./behavior.js";
import { type Load, run, sealVector } from "./vectors.js";
import { verifyCases } from "./verifier/verifying.js";
import { type Play, watched } from "./watched.js";

const load: Load = async (name) => new Uint8Array(await (await fetch(`/vectors/${name}`)).arrayBuffer());

const behavior = (): ReturnType<typeof behave> => 
  behave(
    load,
    (name) => new IndexedStore(name),
    (name) => new IndexedFeedStore(name),
  );

async function sealed(suite: SuiteName): Promise<string> {
  return hex(await sealVector(JSON.parse(new TextDecoder().decode(await load("sealed.json"))), suite));
}

/** Open a device; at the point `killAt` it calls `die`, which a test provides, and does nothing more. */
function opened(options: DeviceOptions, play: Play): ReturnType<typeof openDevice> {
  const { die } = globalThis as unknown as { die: () => void };
  return openDevice(
    options,
    watched(new IndexedStore(play.name), postByFetch, play, () => die()),
  );
}

/** Return the milliseconds that it took to draw and seal the answers, in each of so many tries. */
async function measured(
  options: DeviceOptions,
  answers: Answers,
  keys: [string, string],
  tries: number,
): Promise<number[]> {
  const task = readTask(options.task, { operator: options.operatorKey, shuffler: options.shufflerKey });
  const [shuffler, analyzer] = keys.map((each) =>
    Uint8Array.from(each.match(/../g)!, (two) => parseInt(two, 16)),
  );
  const to = {
    round: 0,
    hash: new Uint8Array(32),
    shuffler: shuffler!,
    analyzer: analyzer!,
    hops: [],
    successions: [],
  };
  const found: number[] = [];
  for (let count = 0; count < tries; count++) {
    const began = performance.now();
    const { reports } = drawReports(task, answers, 0, {}, systemRandom);
    await sealSubmission(task, to, reports, systemRandom(16));
    found.push(performance.now() - began);
  }
  return found;
}

const vectors = (): ReturnType<typeof run> => run(load);

Object.assign(globalThis, {
  hubbub: { vectors, behavior, sealed, opened, measured, verified: verifyCases },
});
