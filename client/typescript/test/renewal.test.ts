/** What an answer to a Renew, or a refusal of it, means for the lease and for `fn`. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { fromBinary } from "@bufbuild/protobuf";
import type { Attempt } from "@idempotencyd/client";

import {
  BeginRequestSchema,
  RenewRequestSchema,
  RenewResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { DONE, useStub } from "./stub_client.js";
import { Code, eventually, message, started } from "./stub_service.js";

const stub = useStub();
const DELAY_MS = 200;

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The first attempt's lease is this short, and the present test's `fn` ends when `isDone`. */
async function workWhile(leaseMs: number, isDone: (attempt: Attempt) => boolean): Promise<void> {
  stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), leaseMs);
  await stub.runOnce(async (attempt) => {
    await eventually(() => isDone(attempt));
    return DONE;
  });
}

describe("the lease counts from when the call was sent", () => {
  test("of a Begin", async () => {
    stub.service.on.Begin = async (request) => {
      await pass(DELAY_MS);
      return started(fromBinary(BeginRequestSchema, request));
    };
    await stub.runOnce((attempt) => {
      // Timers may be a millisecond early.
      assert.ok(attempt.leaseRemainingMs() <= 60_000 - DELAY_MS + 1);
      return DONE;
    });
  });

  test("of a Renew", async () => {
    stub.service.on.Renew = async () => {
      await pass(DELAY_MS);
      return message(RenewResponseSchema, { leaseRemaining: { seconds: 60n } });
    };
    let remainingMs = 0;
    await workWhile(1_000, (attempt) => {
      remainingMs = attempt.leaseRemainingMs();
      return remainingMs > 1_000;
    });
    assert.ok(remainingMs <= 60_000 - DELAY_MS + 1);
  });
});

test("a Renew asks for the lease that the Begin asked for, under the same attempt", async () => {
  stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 300);
  const options = { leaseDurationMs: 1_500 };
  await stub.runOnce(async () => {
    await stub.service.received("Renew", 1);
    return DONE;
  }, options);
  const begin = fromBinary(BeginRequestSchema, stub.service.requests.Begin[0] ?? Buffer.alloc(0));
  const renew = fromBinary(RenewRequestSchema, stub.service.requests.Renew[0] ?? Buffer.alloc(0));
  assert.deepEqual(renew.leaseDuration, begin.leaseDuration);
  assert.deepEqual(
    [renew.merchantId, renew.idempotencyKey, renew.attemptId],
    [begin.merchantId, begin.idempotencyKey, begin.attemptId],
  );
  assert.deepEqual([begin.leaseDuration?.seconds, begin.leaseDuration?.nanos], [1n, 5e8]);
});

test("UNAUTHENTICATED is repeated with fresh credentials", async () => {
  let refreshes = 0;
  stub.reconnect({ hooks: { refreshCredentials: () => (refreshes += 1) } });
  stub.service.on.Renew = (_, number) =>
    number === 1
      ? { code: Code.UNAUTHENTICATED, reason: "CREDENTIALS_INVALID" }
      : message(RenewResponseSchema, { leaseRemaining: { seconds: 60n } });
  await workWhile(3_000, (attempt) => attempt.leaseRemainingMs() > 3_000);
  assert.deepEqual([refreshes, stub.service.requests.Renew.length], [1, 2]);
});

test("NEEDS_RESOLUTION leaves the lease that is held, and asks for no other", async () => {
  stub.service.on.Renew = () => ({ code: Code.FAILED_PRECONDITION, reason: "NEEDS_RESOLUTION" });
  let remainingWhenStopped = -1;
  await workWhile(900, (attempt) => {
    if (attempt.signal.aborted) remainingWhenStopped = attempt.leaseRemainingMs();
    return attempt.signal.aborted;
  });
  assert.deepEqual([remainingWhenStopped, stub.service.requests.Renew.length], [0, 1]);
});

for (const [code, reason] of [
  [Code.ABORTED, "LEASE_LOST"],
  [Code.FAILED_PRECONDITION, "ALREADY_FINISHED"],
  [Code.NOT_FOUND, "RECORD_NOT_FOUND"],
] as const) {
  test(`${reason} asks fn to stop while there is lease left`, async () => {
    stub.service.on.Renew = () => ({ code, reason });
    let remainingWhenStopped = 0;
    await workWhile(6_000, (attempt) => {
      if (attempt.signal.aborted) remainingWhenStopped = attempt.leaseRemainingMs();
      return attempt.signal.aborted;
    });
    assert.ok(remainingWhenStopped > 0);
  });
}

for (const code of [Code.UNAVAILABLE, Code.UNAUTHENTICATED]) {
  test(`${Code[code]} that says "not again" is followed by a Renew a third later`, async () => {
    const trailers = { "grpc-retry-pushback-ms": "-1" };
    const sentAt: number[] = [];
    stub.service.on.Renew = (_, number) => {
      sentAt.push(performance.now());
      if (number === 1) return { code, trailers };
      return message(RenewResponseSchema, { leaseRemaining: { seconds: 60n } });
    };
    await workWhile(3_000, (attempt) => attempt.leaseRemainingMs() > 3_000);
    const [first = 0, second = 0] = sentAt;
    // Timers may be a millisecond early.
    assert.ok(second - first >= 1_000 - 1);
  });
}

test("a Renew goes on being repeated when the lease is over here and fn has not stopped", async () => {
  stub.service.on.Renew = (_, number) =>
    number < 8
      ? { code: Code.UNAVAILABLE }
      : message(RenewResponseSchema, { leaseRemaining: { seconds: 60n } });
  let wasStopped = false;
  await workWhile(300, (attempt) => {
    wasStopped ||= attempt.signal.aborted;
    return attempt.leaseRemainingMs() > 300;
  });
  assert.equal(wasStopped, true);
});
