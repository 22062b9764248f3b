/** How bytes get to the shuffler and back: what browsers and Node do differently. */

import { joined } from "../base/bytes.js";

export interface HttpAnswer {
  readonly status: number;
  /** Returns a header by its name in small letters; null if there is none. */
  readonly header: (name: string) => string | null;
  readonly body: Uint8Array;
}

/** Posts a body, and returns the answer; throws anything if there is none within `timeoutMs`. */
export type Post = (
  url: string,
  body: Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>>,
  timeoutMs: number,
) => Promise<HttpAnswer>;

/** Most bytes of an answer that is read. */
export const LONGEST_ANSWER = 8 * 2 ** 20;

/** Posts by `fetch`: with no cookie, no referrer and no cache, and to that address alone. */
export const postByFetch: Post = async (url, body, headers, timeoutMs) => {
  const answer = await fetch(url, {
    method: "POST",
    body,
    headers,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(timeoutMs),
  });
  const found = await bounded(answer.body);
  return { status: answer.status, header: (name) => answer.headers.get(name), body: found };
};

/** Read a body; throw if it has too many bytes, without reading on. */
async function bounded(stream: ReadableStream<Uint8Array> | null): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for (const reader = stream?.getReader(); reader !== undefined;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size <= LONGEST_ANSWER) continue;
    await reader.cancel();
    throw new RangeError(`the answer has more than ${LONGEST_ANSWER} bytes`);
  }
  return joined(...parts);
}
