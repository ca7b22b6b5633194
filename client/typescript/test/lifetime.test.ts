/** Leases, closing, and what goes on in the background. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { fromBinary } from "@bufbuild/protobuf";
import {
  StopRequest,
  type Attempt,
  type IdempotencyError,
  type Key,
  type WorkResult,
} from "@idempotencyd/client";

import {
  BeginRequestSchema,
  CompleteResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { DONE, errorOf, KEY, useStub } from "./stub_client.js";
import { Code, eventually, message, started } from "./stub_service.js";

const stub = useStub();

describe("the lease", () => {
  test("that is lost aborts the signal with a reason, and leaseRemainingMs counts down", async () => {
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 2_000);
    stub.service.on.Renew = () => ({ code: Code.ABORTED, reason: "LEASE_LOST" });
    let seen: Attempt | undefined;
    await stub.runOnce(async (attempt) => {
      seen = attempt;
      assert.equal(attempt.stopReason, "none");
      assert.ok(attempt.leaseRemainingMs() > 0 && attempt.leaseRemainingMs() <= 2_000);
      await eventually(() => attempt.signal.aborted);
      return DONE;
    });
    assert.equal(seen?.stopReason, "lease_lost");
    const reason: unknown = seen.signal.reason;
    assert.ok(reason instanceof StopRequest && reason.stopReason === "lease_lost");
  });

  test("is over for a caller whose event loop was blocked, though no timer has run", async (context) => {
    await stub.runOnce((attempt) => {
      const blockedUntil = performance.now() + 3_600_000;
      context.mock.method(performance, "now", () => blockedUntil);
      assert.equal(attempt.leaseRemainingMs(), 0);
      assert.equal(attempt.stopReason, "none");
      context.mock.restoreAll();
      return DONE;
    });
  });

  test("is over when the wall clock says that the machine slept", async (context) => {
    await stub.runOnce((attempt) => {
      assert.ok(attempt.leaseRemainingMs() > 50_000);
      const sleptUntil = Date.now() + 3_600_000;
      context.mock.method(Date, "now", () => sleptUntil);
      assert.equal(attempt.leaseRemainingMs(), 0);
      context.mock.restoreAll();
      return DONE;
    });
  });

  test("is not longer because the wall clock was put back", async (context) => {
    await stub.runOnce((attempt) => {
      const putBack = Date.now() - 3_600_000;
      context.mock.method(Date, "now", () => putBack);
      assert.ok(attempt.leaseRemainingMs() <= 60_000);
      context.mock.restoreAll();
      return DONE;
    });
  });

  test("is not renewed any more when fn has ended", async () => {
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 60);
    let ended = 0;
    stub.service.on.Complete = async () => {
      ended = stub.service.requests.Renew.length;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return message(CompleteResponseSchema, { finishTime: { seconds: 1n } });
    };
    await stub.runOnce(() => DONE);
    assert.equal(stub.service.requests.Renew.length, ended);
  });
});

describe("closing", () => {
  test("waits for work that runs and for its record", async () => {
    stub.reconnect({ shutdownTimeoutMs: 10_000 });
    const running = stub.runOnce(async () => {
      void stub.client.close();
      await new Promise((resolve) => setTimeout(resolve, 50));
      return DONE;
    });
    assert.equal((await running).kind, "Completed");
    await stub.client.close();
  });

  test("asks work to stop at once, and renews its lease until it has ended", async () => {
    stub.reconnect({ shutdownTimeoutMs: 60_000 });
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 300);
    let stopReason = "";
    const running = stub.runOnce(async (attempt) => {
      void stub.client.close();
      stopReason = attempt.stopReason;
      await stub.service.received("Renew", 1);
      return DONE;
    });
    assert.equal((await running).kind, "Completed");
    assert.equal(stopReason, "cancelled");
  });

  test("starts no fn when the answer to its Begin comes late, and releases the key", async () => {
    stub.reconnect({ shutdownTimeoutMs: 60_000 });
    stub.service.on.Begin = (request) => {
      closed = stub.client.close();
      return started(fromBinary(BeginRequestSchema, request));
    };
    let closed = Promise.resolve();
    let runs = 0;
    const error = await errorOf(stub.runOnce(() => (runs++, DONE)));
    assert.deepEqual([error.kind, error.message, runs], ["Unavailable", "the client is closed", 0]);
    await closed;
    assert.equal(stub.service.requests.Fail.length, 1);
  });

  test("starts no fn unprotected either", async () => {
    stub.reconnect({ shutdownTimeoutMs: 60_000 });
    stub.service.on.Begin = () => {
      void stub.client.close();
      return { code: Code.UNAVAILABLE, reason: "DRAINING" };
    };
    const options = { onUnavailable: "RUN_UNPROTECTED", startTimeoutMs: 20 } as const;
    const error = await errorOf(stub.runOnce(() => DONE, options));
    assert.deepEqual([error.kind, error.work], ["Unavailable", undefined]);
    assert.equal(stub.client.unprotectedRuns, 0);
  });

  test("ends a call that is between two tries", async () => {
    stub.reconnect({
      shutdownTimeoutMs: 60_000,
      hooks: { onRetry: () => void stub.client.close() },
    });
    const trailers = { "grpc-retry-pushback-ms": "20000" };
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "OVERLOADED", trailers });
    assert.equal((await errorOf(stub.runOnce(() => DONE))).message, "the client is closed");
    assert.equal(stub.service.requests.Begin.length, 1);
  });

  test("gives up a call that is not answered in time as Unavailable", async () => {
    stub.service.on.Begin = () => {
      void stub.client.close();
      return undefined;
    };
    assert.equal((await errorOf(stub.runOnce(() => DONE))).kind, "Unavailable");
  });

  test("refuses new calls, without running them", async () => {
    await stub.client.close();
    let runs = 0;
    const counted = () => {
      runs += 1;
      return DONE;
    };
    assert.equal((await errorOf(stub.runOnce(counted))).kind, "Unavailable");
    assert.equal((await errorOf(stub.client.lookup(KEY))).kind, "Unavailable");
    assert.equal(runs, 0);
  });

  test("gives up what is not recorded in time, and tells the hook", async () => {
    const told: string[] = [];
    const onOutcomeNotRecorded = (key: Key, work: WorkResult, error: IdempotencyError) => {
      told.push(key.idempotencyKey, work.kind, error.kind);
    };
    stub.reconnect({ shutdownTimeoutMs: 20, hooks: { onOutcomeNotRecorded } });
    stub.service.on.Complete = () => undefined;
    const running = errorOf(stub.runOnce(() => DONE));
    await stub.service.received("Complete", 1);
    await stub.client.close();
    const error = await running;
    assert.deepEqual([error.kind, error.stillRecording], ["OutcomeNotRecorded", false]);
    assert.equal(error.work, DONE);
    assert.deepEqual(told, ["k", "completed", "OutcomeNotRecorded"]);
  });

  test("asks work that is still running to stop, and tells the hook what it came to", async () => {
    const told: string[] = [];
    const onOutcomeNotRecorded = (_key: Key, _work: WorkResult, error: IdempotencyError) => {
      told.push(error.kind);
    };
    stub.reconnect({ shutdownTimeoutMs: 20, hooks: { onOutcomeNotRecorded } });
    let stopReason = "";
    const running = errorOf(
      stub.runOnce(async (attempt) => {
        await stub.client.close();
        stopReason = attempt.stopReason;
        return DONE;
      }),
    );
    assert.equal((await running).kind, "OutcomeNotRecorded");
    assert.deepEqual([stopReason, told], ["cancelled", ["OutcomeNotRecorded"]]);
  });

  test("can be left to await using", async () => {
    await stub.client[Symbol.asyncDispose]();
    assert.equal((await errorOf(stub.client.lookup(KEY))).kind, "Unavailable");
  });
});

describe("background records", () => {
  test("are bounded: past it the key is left to its lease", async () => {
    stub.reconnect({ maxBackgroundRecords: 1, shutdownTimeoutMs: 0 });
    stub.service.on.Begin = () => undefined;
    stub.service.on.Fail = () => undefined;
    const giveUp = () => errorOf(stub.runOnce(() => DONE, { signal: AbortSignal.timeout(30) }));
    await giveUp();
    await stub.service.received("Fail", 1);
    await giveUp();
    assert.equal(stub.service.requests.Fail.length, 1);
  });

  test("record what fn came to however many there are", async () => {
    stub.reconnect({ maxBackgroundRecords: 0 });
    assert.equal((await stub.runOnce(() => DONE)).kind, "Completed");
  });
});

test("a signal that lives long keeps no listeners of calls that ended", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  };
  await stub.runOnce(() => DONE, { signal });
  assert.equal(listeners, 0);
});
