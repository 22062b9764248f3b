/** What the package throws. Each message says what happened, what was expected, and what to do. */

/** The one thing that is wrong with a document that another party made. */
export type Because =
  | "canonical"
  | "signature"
  | "format"
  | "value"
  | "task"
  | "round"
  | "role"
  | "suite"
  | "time"
  | "number"
  | "previous"
  | "budget"
  | LogFault;

/** What is wrong with a proof that a document is in a transparency log; a wrong signature is a `signature`. */
export type LogFault = "proof" | "inclusion" | "log" | "witnesses";

/** All errors of this package. Their names are written out, as tools that shorten programs change those of classes. */
export class HubbubError extends Error {
  override readonly name: string = "HubbubError";
}

/** A task, an entry of a feed, a key record or a succession that must not be used. */
export class DocumentError extends HubbubError {
  override readonly name = "DocumentError";

  constructor(
    readonly because: Because,
    message: string,
  ) {
    super(message);
  }
}

/** An answer that does not fit its question. The message never repeats it. */
export class AnswerError extends HubbubError {
  override readonly name = "AnswerError";
}

/** There is no round to answer, or it was over or erased on this device. */
export class NoRound extends HubbubError {
  override readonly name = "NoRound";
}

/** This device has opted out. */
export class OptedOut extends HubbubError {
  override readonly name = "OptedOut";

  constructor() {
    super("this device has opted out, so nothing is stored or sent; call optIn() to change that");
  }
}

/** The round would exceed a limit that the application set. */
export class OverLimit extends HubbubError {
  override readonly name = "OverLimit";

  constructor(
    readonly limit: string,
    message: string,
  ) {
    super(message);
  }
}

/** The state cannot be read or written, or is not what this package wrote. */
export class StateError extends HubbubError {
  override readonly name = "StateError";
}

/** The round's keys are not those that were seen first: they may be made for this device alone. */
export class KeySetChanged extends HubbubError {
  override readonly name = "KeySetChanged";
}

/** The shuffler refused, for one of the reasons of docs/reference/refusals.md. */
export class Refusal extends HubbubError {
  override readonly name = "Refusal";

  constructor(
    readonly reason: string,
    message: string,
    readonly retryAfterMs = 0,
  ) {
    super(message);
  }
}

/** The other side showed a certificate that is not trusted; nothing was sent, and the same one would come again. */
export class Distrusted extends HubbubError {
  override readonly name = "Distrusted";
}

/** There was no answer, or none that can be read. It may have arrived: the same bytes are sent again. */
export class Unreachable extends HubbubError {
  override readonly name = "Unreachable";

  constructor(
    message: string,
    readonly retryAfterMs = 0,
  ) {
    super(message);
  }
}
