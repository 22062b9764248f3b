/** A device for tests: `node device.js FILE` plays the devices of a file, and prints what became of each.
 *
 * Without a file it plays the one of the variable CONFORMANCE, as `hubbub conformance` runs it. */

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { FileStore, type NodeOptions, openDevice, postByHttps } from "../src/node.js";
import type { Answers } from "../src/queries/encode.js";
import { killed, type Play, watched } from "./watched.js";

interface Plays {
  /** Paths of the task and the authority, and what all devices have in common. */
  readonly task: string;
  readonly authority: string;
  /** The content of the proof of a task that demands a log. */
  readonly logProof?: string;
  readonly operatorKey: string;
  readonly shufflerKey: string;
  readonly shuffler: string;
  readonly devices: readonly (Play & {
    readonly state: string;
    readonly ticket?: string;
    readonly answers: Answers;
  })[];
}

async function conformance(path: string): Promise<Plays> {
  const of = JSON.parse(await readFile(path, "utf8")) as Record<string, string>;
  const text = (name: string): Promise<string> => readFile(of[name]!, "utf8");
  const ticket = of["ticket"] === undefined ? {} : { ticket: await text("ticket") };
  const answers = { theme: "dark", session: 12.5 };
  return {
    task: of["task"]!,
    authority: of["authority"]!,
    operatorKey: await text("operator_key"),
    shufflerKey: await text("shuffler_key"),
    shuffler: of["https"]!,
    ...(of["log_proof"] === undefined ? {} : { logProof: await text("log_proof") }),
    devices: [{ state: join(dirname(path), "state"), answers, ...ticket }],
  };
}

async function play(all: Plays, each: Plays["devices"][number]): Promise<unknown> {
  const options: NodeOptions = {
    task: await readFile(all.task),
    operatorKey: all.operatorKey,
    shufflerKey: all.shufflerKey,
    shuffler: all.shuffler,
    authority: await readFile(all.authority),
    state: each.state,
    logProof: all.logProof ?? null,
    ...(each.ticket === undefined ? {} : { ticket: each.ticket }),
    // A busy machine, with services that are killed meanwhile.
    retry: { totalMs: 300_000, callMs: 60_000 },
  };
  const die = (): void => void process.kill(process.pid, "SIGKILL");
  const around = watched(new FileStore(each.state), postByHttps(options.authority), each, die);
  const device = await openDevice(options, around);
  return device.submit(each.answers);
}

const AT_ONCE = 8;

const [, , file] = process.argv;
const all =
  file === undefined
    ? await conformance(process.env["CONFORMANCE"]!)
    : (JSON.parse(await readFile(file, "utf8")) as Plays);
const results: unknown[] = [];
const left = [...all.devices.entries()];
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [place, each] = next;
      results[place] = await play(all, each).catch((error: unknown) => ({ error: String(error) }));
    }
  }),
);
console.log(JSON.stringify(results));
process.exit(killed() ? 1 : 0);
