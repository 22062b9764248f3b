/** The state in IndexedDB. A change is one transaction, so two tabs never answer a round twice. */

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

const STORE = "state";
const KEY = "device";

class Indexed<State> implements Store<State> {
  private opened: Promise<IDBDatabase> | null = null;

  constructor(
    private readonly name: string,
    private readonly kind: Kind<State>,
  ) {}

  async read(): Promise<State> {
    return this.change((state) => state);
  }

  async change<T>(change: (state: State) => T): Promise<T> {
    const database = await this.database();
    return new Promise<T>((resolve, reject) => {
      // Strict: the transaction is complete when its bytes are on disk, not when the system has them.
      const transaction = database.transaction(STORE, "readwrite", { durability: "strict" });
      const all = transaction.objectStore(STORE);
      let result: T;
      let thrown: unknown;
      const found = all.get(KEY) as IDBRequest<unknown>;
      found.onsuccess = () => {
        try {
          const state = found.result === undefined ? this.kind.empty() : checkedState(found.result, this.kind);
          const before = JSON.stringify(state);
          result = change(state);
          if (JSON.stringify(state) !== before) all.put(state, KEY);
        } catch (error) {
          thrown = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(thrown ?? unusable(transaction.error));
    });
  }

  close(): void {
    const opened = this.opened;
    this.opened = null;
    void opened?.then(
      (database) => database.close(),
      () => undefined,
    );
  }

  private database(): Promise<IDBDatabase> {
    this.opened ??= this.open().catch((error: unknown) => {
      this.opened = null;
      throw error;
    });
    return this.opened;
  }

  private open(): Promise<IDBDatabase> {
    return new Promise((resolve, reject) => {
      let request: IDBOpenDBRequest;
      try {
        // A frame that is sandboxed, or a browser that forbids storage, throws at once.
        request = indexedDB.open(this.name, 1);
      } catch (error) {
        reject(unusable(error));
        return;
      }
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      request.onerror = () => reject(unusable(request.error));
      request.onsuccess = () => {
        const database = request.result;
        // Another tab erases the database or upgrades it: this one must not be in the way.
        database.onversionchange = () => this.close();
        database.onclose = () => (this.opened = null);
        resolve(database);
      };
    });
  }
}

export class IndexedStore extends Indexed<DeviceState> {
  /** `name` is that of the database; each device of a page has its own. */
  constructor(name = "hubbub") {
    super(name, DEVICE_STATE);
  }
}

export class IndexedFeedStore extends Indexed<FeedState> {
  /** `name` is that of the database, which has no device's state. */
  constructor(name = "hubbub-feed") {
    super(name, FEED_STATE);
  }
}

function unusable(error: unknown): StateError {
  const why = error instanceof Error ? `${error.name}: ${error.message}` : "it was ended";
  return new StateError(
    `the browser's storage cannot be used (${why}); allow this page to store data, or free space`,
  );
}
