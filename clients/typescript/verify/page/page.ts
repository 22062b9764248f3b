/** The page: files are chosen, checked here, and what was found is shown as text. */

import { fromHex } from "../../src/base/bytes.js";
import { HubbubError } from "../../src/base/errors.js";
import {
  type GivenFile,
  type Line,
  linesOf,
  type Pins,
  publicKey,
  verdictOf,
  verifyFiles,
} from "../index.js";

const SAID: Readonly<Record<Line["kind"], string>> = {
  refused: "WRONG",
  checked: "checked",
  left: "not checked here",
  compare: "compare this yourself",
  about: "",
};

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** Return a key that was typed: a fingerprint, 64 hex digits, or the text of a file. */
function keyOf(text: string, name: string): Uint8Array {
  const digits = text.includes("BEGIN") ? text : text.replace(/[-\s]/g, "").toLowerCase();
  return publicKey(digits, name);
}

function pinsOf(): Pins {
  const typed = (id: string): string => element<HTMLInputElement>(id).value.trim();
  const found: { -readonly [name in keyof Pins]: Pins[name] } = {};
  for (const role of ["operator", "shuffler", "analyzer"] as const)
    if (typed(role) !== "") found[role] = keyOf(typed(role), `the ${role}`);
  if (typed("hops") !== "")
    found.hops = typed("hops")
      .split(",")
      .map((each) => keyOf(each, "a further shuffler"));
  if (typed("task") !== "") {
    const id = fromHex(typed("task").toLowerCase(), 32);
    if (id === null) throw new HubbubError("the id of the task must be 64 hex digits");
    found.task = id;
  }
  return found;
}

function show(verdict: string, lines: readonly Line[]): void {
  element("verdict").textContent = verdict;
  element("lines").replaceChildren(
    ...lines.map(({ kind, text }) => {
      const item = document.createElement("li");
      item.className = kind;
      item.textContent = SAID[kind] === "" ? text : `${SAID[kind]}: ${text}`;
      return item;
    }),
  );
}

/** Counts the checks, so that one that was overtaken by another shows nothing. */
let latest = 0;

async function check(): Promise<void> {
  const own = ++latest;
  show("Checking …", []);
  try {
    const pins = pinsOf();
    const chosen = [...(element<HTMLInputElement>("files").files ?? [])];
    const files: GivenFile[] = [];
    for (const each of chosen)
      files.push({ name: each.name, bytes: new Uint8Array(await each.arrayBuffer()) });
    const report = await verifyFiles(files, pins);
    if (own === latest) show(verdictOf(report), linesOf(report));
  } catch (error) {
    if (own !== latest) return;
    const words = error instanceof HubbubError ? error.message : `this page failed: ${String(error)}`;
    show("Nothing was checked.", [{ kind: "refused", text: words }]);
  }
}

element<HTMLFormElement>("form").addEventListener("submit", (event) => {
  event.preventDefault();
  void check();
});
// What is shown is of the files and keys that are chosen: a change takes it away.
element<HTMLFormElement>("form").addEventListener("input", () => {
  latest += 1;
  show("", []);
});
