/** What the types forbid. The compiler is the judge: an unused `@ts-expect-error` is an error. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  outcomeOf,
  WorkResult,
  type ErrorKind,
  type IdempotencyError,
  type Outcome,
  type RecordedOutcome,
  type Runner,
  type RunResult,
} from "@idempotencyd/client";

const key = { merchantId: "acme", idempotencyKey: "k" };
const request = { operation: "o", payload: { data: "" } };
const work = (): WorkResult => WorkResult.unknown("X", "");

// Never called: it is there to be compiled.
export async function forbidden(runner: Runner): Promise<void> {
  // @ts-expect-error -- onLeaseExpiry has no default
  await runner.runOnce(key, request, work);
  // @ts-expect-error -- fn must be given
  await runner.runOnce(key, request, "HOLD");
  // @ts-expect-error -- on_lease_expiry is one of two words
  await runner.runOnce(key, request, "RETRY", work);
  // @ts-expect-error -- a request has a payload or a fingerprint
  await runner.runOnce(key, { operation: "o" }, "HOLD", work);
  // @ts-expect-error -- not both
  await runner.runOnce(key, { ...request, fingerprint: new Uint8Array(32) }, "HOLD", work);
  // @ts-expect-error -- fn says what it came to
  await runner.runOnce(key, request, "HOLD", () => undefined);
  // @ts-expect-error -- options are spelt right
  await runner.runOnce(key, request, "HOLD", work, { leaseDuration: 1 });
  // @ts-expect-error -- an outcome has a status code
  WorkResult.completed({ body: "" });
}

/** Every kind of result is told apart by `kind`: this compiles only if none is left out. */
export function describeResult(result: RunResult): string {
  switch (result.kind) {
    case "Completed":
      return String(result.outcome.statusCode);
    case "Replayed":
      return result.outcome === undefined ? result.failure.code : result.outcome.contentType;
    case "InProgress":
      return String(result.retryAfterMs);
    case "Failed":
      return result.failure.disposition;
    case "Unprotected":
      return result.work.kind;
  }
}

/** Every kind of error, too. */
export function isMistake(error: IdempotencyError): boolean {
  const mistakes: readonly ErrorKind[] = ["InvalidField", "KeyReused", "RequestTooLarge"];
  return mistakes.includes(error.kind);
}

test("an outcome of an answer can be recorded again", () => {
  const answer = {
    kind: "Replayed",
    outcome: { statusCode: 201 } as RecordedOutcome,
  } as RunResult;
  const again: Outcome | undefined = outcomeOf(answer);
  assert.equal(again?.statusCode, 201);
});
