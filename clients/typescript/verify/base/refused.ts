/** Why something was refused: one code for programs, and words for people. */

import { type Because, HubbubError } from "../../src/base/errors.js";

/** The one thing that is wrong. The codes of `Because` are those of tests/vectors/wire/refused.json. */
export type Why =
  | Because
  | "json"
  | "kind"
  | "form"
  | "pin"
  | "record"
  | "release"
  | "words"
  | "history"
  | "counts"
  | "estimate";

export class Refused extends HubbubError {
  override readonly name: string = "Refused";

  constructor(
    readonly because: Why,
    message: string,
  ) {
    super(message);
  }
}

/** Bytes are not JSON at all, or not whole. */
export class NotJson extends Refused {
  override readonly name = "NotJson";

  constructor(message: string) {
    super("json", message);
  }
}

/** Return a value as a message shows it: cut, and with nothing that a terminal or a page would act on. */
export function shown(value: unknown): string {
  const text = typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
