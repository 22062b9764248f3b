/** Turns answers into symbols, and symbols into random reports. */

import { type Bytes, fourBytes } from "../base/bytes.js";
import { member } from "../base/canonical.js";
import { AnswerError } from "../base/errors.js";
import { draw, type Random, uniform } from "../base/random.js";
import {
  answersOf,
  type Choice,
  type Digit,
  type Distribution,
  type Amount,
  type Grouped,
  NO_TEXT,
  type Question,
  symbolsOf,
  type Text,
} from "../task/questions.js";
import type { Asked, Query, Task } from "../task/task.js";
import { cellOf, textSymbol } from "./hashes.js";
import { roundedSum, roundedVariance } from "./numbers.js";
import { type Memory, step } from "./streams.js";

/** An answer: of a `grouped` question the attributes' values and the answer, by name. */
export type Answer = string | number | boolean | null | Readonly<Record<string, string | number | null>>;
export type Answers = Readonly<Record<string, Answer | undefined>>;
export type Memories = Readonly<Record<string, Memory>>;

const LONGEST_TEXT = 10_000;

/** The symbols and reports of all queries of a task, in its order, and what the device has to keep with them. */
export interface Drawn {
  readonly symbols: readonly bigint[];
  readonly reports: readonly Bytes[];
  readonly memories: Memories;
}

/** Return fresh reports of the answers to a round. Whoever calls stores them before anything is sent. */
export function drawReports(
  task: Task,
  answers: Answers,
  round: number,
  memories: Memories,
  random: Random,
): Drawn {
  const asked = task.asked.map((each) => each.name);
  for (const name of Object.keys(answers)) {
    if (!asked.includes(name)) throw new AnswerError(`the task asks no ${name}; it asks ${asked.join(", ")}`);
  }
  const symbols: bigint[] = [];
  const after: [string, Memory][] = [];
  for (const each of task.asked) {
    const found = encode(task, each, member(answers, each.name) ?? null, round, memories, random);
    symbols.push(...found.symbols);
    if (found.memory !== undefined) after.push([each.name, found.memory]);
  }
  const reports = task.queries.map((query, place) => randomize(query, symbols[place]!, random));
  // By a method that also keeps a question named __proto__.
  return { symbols, reports, memories: Object.fromEntries(after) };
}

/** Return the symbols of what is asked, one for each of its queries. */
export function encode(
  task: Pick<Task, "queries">,
  asked: Asked,
  answer: Answer,
  round: number,
  memories: Memories,
  random: Random,
): { symbols: bigint[]; memory?: Memory } {
  const query = task.queries[asked.places[0]!]!;
  const { question } = query;
  if (question.kind === "bit") return { symbols: digits(question, answer, random) };
  if (question.kind !== "longitudinal") return { symbols: [encodeOne(question, answer, round, random)] };
  const found = step(
    question,
    query.randomizer,
    stateOf(question.name, answer),
    round,
    member(memories, query.name),
    random,
  );
  return { symbols: [BigInt(found.symbol)], memory: found.memory };
}

function encodeOne(
  question: Exclude<Question, Digit>,
  answer: Answer,
  round: number,
  random: Random,
): bigint {
  if (answer === null) {
    if (!question.optional)
      throw new AnswerError(`${question.name} has no answer and is not optional; give one`);
    return question.kind === "text" ? NO_TEXT : BigInt(answersOf(question));
  }
  switch (question.kind) {
    case "text":
      return textOf(question, answer, round);
    case "grouped":
      return BigInt(groupedSymbol(question, answer, round, random));
    case "longitudinal":
      throw new TypeError("a longitudinal question is encoded over its rounds");
    default:
      return BigInt(plainSymbol(question, answer, random));
  }
}

function plainSymbol(question: Choice | Amount | Distribution, answer: Answer, random: Random): number {
  switch (question.kind) {
    case "histogram":
    case "top":
      return placeOf(question.name, question.categories, answer);
    case "sum":
      return roundedSum(question, numberOf(question.name, answer), random);
    case "variance":
      return roundedVariance(question, numberOf(question.name, answer), random);
    case "distribution": {
      const number = numberOf(question.name, answer);
      return question.edges.slice(1, -1).filter((edge) => edge < number).length;
    }
  }
}

function placeOf(name: string, categories: readonly string[], answer: Answer | undefined): number {
  const place = typeof answer === "string" ? categories.indexOf(answer.normalize("NFC")) : -1;
  if (place < 0)
    throw new AnswerError(`the answer to ${name} is none of its ${categories.length} categories`);
  return place;
}

function numberOf(name: string, answer: Answer): number {
  if (typeof answer === "number" && Number.isFinite(answer)) return answer;
  throw new AnswerError(`the answer to ${name} is no finite number; give one`);
}

function stateOf(name: string, answer: Answer): number | null {
  if (answer === null) return null;
  if (typeof answer === "boolean" || answer === 0 || answer === 1) return Number(answer);
  throw new AnswerError(
    `the answer to ${name} is neither true nor false; give one of them, or null for none`,
  );
}

function textOf(question: Text, answer: Answer, round: number): bigint {
  if (typeof answer !== "string" || answer === "" || answer.length > LONGEST_TEXT || !answer.isWellFormed()) {
    throw new AnswerError(
      `the answer to ${question.name} is no text of 1 to ${LONGEST_TEXT} characters; give one`,
    );
  }
  return textSymbol(question, answer, round);
}

function groupedSymbol(question: Grouped, answer: Answer, round: number, random: Random): number {
  const names = [...question.by.map((each) => each.name), question.name];
  if (
    typeof answer !== "object" ||
    answer === null ||
    Object.keys(answer).some((name) => !names.includes(name))
  ) {
    throw new AnswerError(`the answer to ${question.name} must be an object with ${names.join(", ")}`);
  }
  let group = 0;
  for (const each of question.by) {
    group = group * each.categories.length + placeOf(each.name, each.categories, member(answer, each.name));
  }
  const inner = encodeOne(question.of, member(answer, question.name) ?? null, round, random);
  return group * symbolsOf(question.of) + Number(inner);
}

/** Return the binary digits of a number, from the most significant one: all of them from one rounding. */
function digits(question: Digit, answer: Answer, random: Random): bigint[] {
  if (answer === null)
    throw new AnswerError(`${question.of} has no answer, and is asked by digits; give a number`);
  const levels = 2 ** question.digits - 1;
  const rounded = roundedSum({ ...question, levels }, numberOf(question.of, answer), random);
  return Array.from({ length: question.digits }, (_, place) =>
    BigInt((rounded >> (question.digits - 1 - place)) & 1),
  );
}

/** Return a new random report of a symbol. */
export function randomize(query: Query, symbol: bigint, random: Random): Bytes {
  const { randomizer } = query;
  switch (randomizer.mechanism) {
    case "krr":
    case "direct":
      return fourBytes(response(randomizer.gamma, query.symbols, () => Number(symbol), random));
    case "hashed": {
      const row = uniform(randomizer.rows, random);
      const cell = response(
        randomizer.gamma,
        randomizer.cells,
        () => cellOf(randomizer, row, symbol),
        random,
      );
      return fourBytes(row * randomizer.cells + cell);
    }
    case "unary":
      return unaryReport(query, Number(symbol), randomizer.truthful, randomizer.other, random);
    default:
      // The symbol of the other strategies is random already.
      return fourBytes(Number(symbol));
  }
}

/** Return the symbol itself, or with probability γ a uniform one, by a draw of its own. */
function response(gamma: number, symbols: number, own: () => number, random: Random): number {
  return draw(random) < gamma ? uniform(symbols, random) : own();
}

function unaryReport(query: Query, symbol: number, truthful: number, other: number, random: Random): Bytes {
  const report = new Uint8Array(query.reportBytes);
  for (let place = 0; place < query.symbols; place++) {
    if (draw(random) < (place === symbol ? truthful : other)) report[place >> 3]! |= 1 << (place & 7);
  }
  return report;
}
