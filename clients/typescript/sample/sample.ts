/** The sample page: one question, what is sent, what protects the person, and what it costs. */

import { type Answer, type Device, openDevice, OptedOut, Refusal, Unreachable } from "../src/browser.js";

/** What the page's own server says; `task` is the signed task's text. */
interface Configuration {
  readonly task: string;
  readonly operatorKey: string;
  readonly shufflerKey: string;
  readonly shuffler: string;
  readonly ticket?: string;
}

const RETRY_MS = 60_000;

function part<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no part ${id}`);
  return found as T;
}

function say(words: string): void {
  part("status").textContent = words;
}

function input(type: string, value: string, words: string): HTMLLabelElement {
  const field = document.createElement("input");
  Object.assign(field, { type, name: "answer", required: true });
  if (type === "radio") field.value = value;
  if (type === "number") field.step = "any";
  const label = document.createElement("label");
  label.append(...(type === "radio" ? [field, ` ${words}`] : [`${words} `, field]));
  return label;
}

/** Ask the first question of the task that is for a person. */
function ask(device: Device): void {
  const { asked, queries, about, name } = device.task;
  const first = asked[0]!;
  const { question } = queries[first.places[0]!]!;
  part("title").textContent = name;
  part("purpose").textContent = [about.purpose, about.owner, about.results]
    .filter((each) => each !== null)
    .join(" · ");
  part("question").textContent = about.questions[first.name] ?? first.name;
  const fields =
    question.kind === "histogram" || question.kind === "top"
      ? question.categories.map((each) => input("radio", each, each))
      : question.kind === "text"
        ? [input("text", "", "Your answer")]
        : question.kind === "longitudinal"
          ? [input("radio", "yes", "yes"), input("radio", "no", "no")]
          : [input("number", "", "unit" in question ? question.unit : "")];
  part("answers").replaceChildren(...fields);
}

function answers(device: Device): Record<string, Answer> {
  const given = new FormData(part<HTMLFormElement>("form")).get("answer");
  const first = device.task.asked[0]!;
  const { kind } = device.task.queries[first.places[0]!]!.question;
  const words = String(given ?? "");
  const isWords = kind === "histogram" || kind === "top" || kind === "text";
  return { [first.name]: isWords ? words : kind === "longitudinal" ? words === "yes" : Number(words) };
}

function share(value: number): string {
  return `${(100 * value).toPrecision(3)} %`;
}

async function show(device: Device): Promise<void> {
  const { task } = device;
  const shown = await device.preview(answers(device));
  const [first] = shown.queries;
  const report = [...first!.report].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  part("sent").textContent =
    `Your answer is encoded as “${first!.encoded}”. Then it is randomized, such as to the report ${report}; each ` +
    `draw gives another. It is sealed twice: ${shown.submissionBytes} bytes leave this browser, whatever you answer.`;
  const lines = [
    first!.own === null
      ? "The report is random: nobody who reads it knows what you answered."
      : `The report is your answer with a chance of ${share(first!.own)}, and each other one with ` +
        `${share(first!.other!)}.`,
    `Results are published if at least ${task.minimumReports} people answer. They say at most ε = ` +
      `${task.privacy.epsilon} about you, with δ = ${task.privacy.delta}.`,
    `If all services work together against you, they learn at most ε = ${shown.epsilonLocal.toPrecision(4)}.`,
  ];
  part("protects").replaceChildren(
    ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
  const budget = await device.budget();
  part("costs").textContent =
    `This answer would add ${shown.epsilonLocal.toPrecision(4)} to the ${budget.epsilonLocal.toPrecision(4)} that ` +
    `answers to this task have cost so far, in ${budget.rounds} rounds. ${shown.notSent ?? ""}`;
  part("shown").hidden = false;
}

async function submit(device: Device): Promise<void> {
  say("Sending …");
  const receipt = await device.submit(answers(device));
  say(
    receipt.used
      ? "Thank you. Your answer arrived."
      : "You answered this round before; your first answer counts.",
  );
}

/** Do what somebody asked for, and say what went wrong. */
function reacting(work: () => Promise<void>): () => void {
  return () => {
    work().catch((error: unknown) => {
      if (error instanceof OptedOut) say("You are not asked any more.");
      else if (error instanceof Unreachable)
        say("It is stored here, randomized, and is sent when the service answers.");
      else if (error instanceof Refusal) say(`The service refused it: ${error.message}`);
      else say(error instanceof Error ? error.message : String(error));
    });
  };
}

async function settled(device: Device): Promise<void> {
  const out = await device.isOptedOut();
  part("form").hidden = out;
  part("opt-out").hidden = out;
  part("opt-in").hidden = !out;
  part("choices").hidden = false;
}

async function begin(): Promise<void> {
  const answer = await fetch("hubbub.json", { cache: "no-store" });
  const device = await openDevice((await answer.json()) as Configuration);
  ask(device);
  await settled(device);
  part("form").addEventListener("submit", (event) => {
    event.preventDefault();
    reacting(() => submit(device))();
  });
  part("preview").addEventListener(
    "click",
    reacting(() => show(device)),
  );
  const choices: Record<string, () => Promise<void>> = {
    "opt-out": () => device.optOut(),
    "opt-in": () => device.optIn(),
    wipe: () => device.wipe(),
  };
  for (const [id, work] of Object.entries(choices)) {
    part(id).addEventListener(
      "click",
      reacting(async () => {
        await work();
        await settled(device);
        say("Done.");
      }),
    );
  }
  const resend = reacting(async () => {
    const { receipts, errors } = await device.resend();
    if (receipts.length > 0) say("Thank you. What was stored here has arrived.");
    // What was refused is refused again, until somebody has mended the cause.
    if (errors.some(({ error }) => !(error instanceof Unreachable))) clearInterval(again);
  });
  const again = setInterval(resend, RETRY_MS);
  resend();
  addEventListener("online", resend);
}

reacting(begin)();
