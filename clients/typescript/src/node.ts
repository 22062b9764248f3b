/** A device in Node: its state is in a folder, and it calls the shuffler by HTTPS with an authority of its own. */

import { Agent, request } from "node:https";

import { Distrusted } from "./base/errors.js";
import type { Post } from "./calls/transport.js";
import { LONGEST_ANSWER } from "./calls/transport.js";
import { Device } from "./device/device.js";
import type { DeviceOptions, Surroundings } from "./device/session.js";
import { type FeedOptions, TaskFeed } from "./feed/task_feed.js";
import { FeedFileStore, FileStore } from "./state/files.js";
import type { FeedState } from "./state/state.js";

export * from "./index.js";
export { FeedFileStore, FileStore } from "./state/files.js";

export interface NodeOptions extends DeviceOptions {
  /** The certificate (PEM) of the authority that alone is trusted for the shuffler's; else those of Node. */
  readonly authority?: string | Buffer;
  /** The folder of the state; each device has its own. */
  readonly state: string;
}

export function openDevice(options: NodeOptions, around: Partial<Surroundings> = {}): Promise<Device> {
  return Device.open(options, {
    store: new FileStore(options.state),
    post: postByHttps(options.authority),
    ...around,
  });
}

export interface NodeFeedOptions extends FeedOptions {
  readonly authority?: string | Buffer;
  /** The folder of what was taken; it has no device's state. */
  readonly state: string;
}

/** Follow the deployment's feed of tasks; the devices of what it publishes are made by `openDevice`. */
export function openFeed(options: NodeFeedOptions, around: Partial<Surroundings<FeedState>> = {}): TaskFeed {
  const own = { store: new FeedFileStore(options.state), post: postByHttps(options.authority) };
  return new TaskFeed(options, { ...own, ...around });
}

/** Whether the other side's certificate is why a call failed: it would show the same one again. */
function isDistrusted(error: NodeJS.ErrnoException): boolean {
  return /^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|ERR_TLS_CERT_)/.test(error.code ?? "");
}

function distrusted(url: string, error: NodeJS.ErrnoException): Distrusted {
  const remedy = "give the certificate of the authority that issued it, as `authority`";
  return new Distrusted(`the certificate of ${new URL(url).host} is not trusted (${error.code}); ${remedy}`);
}

/** Return a way to post by Node's own client. `fetch` takes no authority. */
export function postByHttps(authority?: string | Buffer): Post {
  const agent = new Agent({ keepAlive: true, ...(authority === undefined ? {} : { ca: authority }) });
  return (url, body, headers, timeoutMs) =>
    new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(timeoutMs);
      const length = { "content-length": String(body.length) };
      const call = request(
        url,
        { method: "POST", agent, headers: { ...headers, ...length }, signal },
        (answer) => {
          const parts: Buffer[] = [];
          let size = 0;
          answer.on("error", reject);
          answer.on("data", (part: Buffer) => {
            parts.push(part);
            size += part.length;
            if (size > LONGEST_ANSWER) answer.destroy(new Error("the answer is too long"));
          });
          answer.on("end", () => {
            const header = (name: string): string | null => {
              const found = answer.headers[name];
              return typeof found === "string" ? found : null;
            };
            resolve({ status: answer.statusCode ?? 0, header, body: Buffer.concat(parts) });
          });
        },
      );
      call.on("error", (error: NodeJS.ErrnoException) =>
        reject(isDistrusted(error) ? distrusted(url, error) : error),
      );
      // In one piece: each piece becomes a record of TLS.
      call.end(body);
    });
}
