/** Connect's client for browsers, in a page of the shuffler's origin. */

import { createConnectTransport } from "@connectrpc/connect-web";

import { type Call, callAll, type Outcome } from "./foreign_calls.js";

/** Make calls; return what came of them, and the versions of HTTP that they had. */
export async function called(
  useBinaryFormat: boolean,
  calls: readonly Call[],
): Promise<{ outcomes: Outcome[]; versions: string[] }> {
  performance.clearResourceTimings();
  const outcomes = await callAll(
    createConnectTransport({ baseUrl: location.origin, useBinaryFormat }),
    calls,
  );
  const entries = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
  const versions = entries.filter((each) => each.name.includes("/hubbub.v1.")).map((each) => each.nextHopProtocol);
  return { outcomes, versions };
}
