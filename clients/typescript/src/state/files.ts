/** The state in a folder of Node's: each change is a new file, whole on disk before it has its name.
 *
 * Files are numbered, and the last one counts. A number is taken by a hard link, which only one process gets. So
 * several processes may share the folder, and one that is killed at any moment leaves no lock behind. */

import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";

import { StateError } from "../base/errors.js";
import {
  checkedState,
  DEVICE_STATE,
  type DeviceState,
  FEED_STATE,
  type FeedState,
  type Kind,
} from "./state.js";
import type { Store } from "./store.js";

const NAME = /^state-(\d{1,15})$/;
/** So many numbers stay taken, by empty files: a process that was stopped meanwhile must not take one of them anew. */
const KEPT_NUMBERS = 256;

class Files<State> implements Store<State> {
  private ready: Promise<void> | null = null;
  /** Changes of this process wait for each other; those of other processes are met by the number. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly folder: string,
    private readonly kind: Kind<State>,
  ) {}

  async read(): Promise<State> {
    return this.change((state) => state);
  }

  change<T>(change: (state: State) => T): Promise<T> {
    const next = this.last.then(() => this.changed(change));
    this.last = next.catch(() => undefined);
    return next;
  }

  close(): void {
    // Nothing is open between two changes.
  }

  private async changed<T>(change: (state: State) => T): Promise<T> {
    try {
      await (this.ready ??= this.prepared());
      for (;;) {
        const { number, text } = await this.newest();
        const state = text === "" ? this.kind.empty() : checkedState(parsed(text), this.kind);
        const result = change(state);
        const written = JSON.stringify(state);
        if (written === text || (text === "" && written === JSON.stringify(this.kind.empty()))) return result;
        if (await this.taken(number + 1, written)) return result;
      }
    } catch (error) {
      if (!isOfSystem(error)) throw error;
      throw new StateError(
        `the state in ${this.folder} cannot be used (${error.code}); make the folder writable`,
      );
    }
  }

  private async prepared(): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    // What a process that was killed had drawn and never kept, or had not yet erased.
    for (const name of await readdir(this.folder)) {
      if (name.startsWith("new-")) await rm(join(this.folder, name), { force: true });
    }
    const numbers = await this.numbers();
    for (const number of numbers) if (number < Math.max(...numbers)) await this.erase(number);
  }

  private async numbers(): Promise<number[]> {
    const found = (await readdir(this.folder)).map((name) => NAME.exec(name)?.[1]);
    return found.filter((text) => text !== undefined).map(Number);
  }

  private async newest(): Promise<{ number: number; text: string }> {
    for (let before = 0; ;) {
      const number = Math.max(0, ...(await this.numbers()));
      if (number === 0) return { number, text: "" };
      const text = await readFile(this.path(number), "utf8").catch((error: unknown) => {
        if (isOfSystem(error) && error.code === "ENOENT") return "";
        throw error;
      });
      if (text !== "") return { number, text };
      // Empty: another process has a newer one since.
      if (number === before) throw damaged();
      before = number;
    }
  }

  /** Write a state under a number, unless another process has taken it first. */
  private async taken(number: number, text: string): Promise<boolean> {
    const fresh = join(this.folder, `new-${randomBytes(8).toString("hex")}`);
    const file = await open(fresh, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    try {
      await link(fresh, this.path(number));
    } catch (error) {
      // EEXIST: the number is another's. ENOENT: a process that began just now has cleaned up.
      if (isOfSystem(error) && (error.code === "EEXIST" || error.code === "ENOENT")) return false;
      throw error;
    } finally {
      await rm(fresh, { force: true });
    }
    await this.synced();
    // So far behind, the number was free only because a process that was stopped for long found it erased.
    if (Math.max(...(await this.numbers())) > number + KEPT_NUMBERS / 2) {
      await rm(this.path(number), { force: true });
      return false;
    }
    await this.erase(number - 1);
    return true;
  }

  private async synced(): Promise<void> {
    const folder = await open(this.folder, constants.O_RDONLY);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** Erase what is in an earlier file; its name stays for a while. */
  private async erase(number: number): Promise<void> {
    await rm(this.path(number - KEPT_NUMBERS), { force: true });
    const file = await open(this.path(number), "r+").catch(() => null);
    await file?.truncate(0).finally(() => file.close());
  }

  private path(number: number): string {
    return join(this.folder, `state-${number}`);
  }
}

export class FileStore extends Files<DeviceState> {
  /** Each device has a folder of its own. */
  constructor(folder: string) {
    super(folder, DEVICE_STATE);
  }
}

export class FeedFileStore extends Files<FeedState> {
  /** A folder that has no device's state. */
  constructor(folder: string) {
    super(folder, FEED_STATE);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw damaged();
  }
}

function damaged(): StateError {
  return new StateError("the state cannot be read: it is damaged; nothing was sent, use another folder");
}

function isOfSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
}
