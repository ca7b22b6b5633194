import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  IdempotencyError,
  makeError,
  WorkResult,
  type ErrorKind,
  type IdempotencyRecord,
  type Key,
  type Request,
  type RunResult,
  type Work,
} from "@idempotencyd/client";
import { fakeAttempt, FakeRunner } from "@idempotencyd/client/testing";

import { refusesField } from "./refusal.js";

const KEY: Key = { merchantId: "acme", idempotencyKey: "k" };
const REQUEST: Request = { operation: "POST /payments", payload: { data: '{"amount":50}' } };
const DONE = WorkResult.completed({ statusCode: 201, body: "paid" });

function rejectsWith(kind: ErrorKind): (error: unknown) => boolean {
  return (error) => error instanceof IdempotencyError && error.kind === kind;
}

function withoutTimes(result: RunResult): object {
  return { ...result, startTime: 0, finishTime: 0 };
}

describe("FakeRunner", () => {
  test("does the work once and replays it byte for byte", async () => {
    const runner = new FakeRunner();
    let runs = 0;
    const work: Work = () => (runs++, DONE);
    const first = await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work);
    const second = await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work);
    assert.equal(runs, 1);
    assert.deepEqual([first.kind, second.kind], ["Completed", "Replayed"]);
    assert.deepEqual(
      { ...withoutTimes(second), kind: "Completed", recordedWithoutBody: false },
      withoutTimes(first),
    );
  });

  test("replays a final failure, and frees the key of one that was not applied", async () => {
    const runner = new FakeRunner();
    const run = (key: Key, work: WorkResult) => runner.runOnce(key, REQUEST, "HOLD", () => work);
    await run(KEY, WorkResult.finalFailure("DECLINED", "no"));
    const replayed = await run(KEY, DONE);
    assert.equal(replayed.kind === "Replayed" && replayed.failure?.code, "DECLINED");
    const other = { ...KEY, idempotencyKey: "other" };
    await run(other, WorkResult.notApplied("BUSY", "later"));
    assert.equal((await run(other, DONE)).kind, "Completed");
  });

  test("tells the next attempt of one that crashed, with the same downstream key", async () => {
    const runner = new FakeRunner();
    const keys: string[] = [];
    runner.crashAttempt(KEY, REQUEST, "TAKE_OVER");
    const work: Work = (attempt) => {
      keys.push(attempt.downstreamKey);
      assert.equal(attempt.unknownAttempts, keys.length);
      assert.equal(attempt.previousAttempt?.attemptNumber, keys.length);
      return WorkResult.unknown("T", "no answer");
    };
    await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work);
    await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work);
    assert.equal(new Set(keys).size, 1);
    assert.equal(keys.length, 2);
  });

  test("gives nobody the work after a crash under HOLD", async () => {
    const runner = new FakeRunner();
    runner.crashAttempt(KEY, REQUEST, "HOLD");
    const running = runner.runOnce(KEY, REQUEST, "TAKE_OVER", () => DONE);
    await assert.rejects(running, rejectsWith("NeedsResolution"));
  });

  test("refuses another request under the same key", async () => {
    const runner = new FakeRunner();
    await runner.runOnce(KEY, REQUEST, "TAKE_OVER", () => DONE);
    const other: Request = { operation: "POST /payments", payload: { data: '{"amount":51}' } };
    const running = runner.runOnce(KEY, other, "TAKE_OVER", () => DONE);
    await assert.rejects(running, rejectsWith("KeyReused"));
  });

  test("fails the next start only, before fn", async () => {
    const runner = new FakeRunner();
    runner.failNextStart(makeError("Unavailable", "away"));
    let runs = 0;
    const work: Work = () => (runs++, DONE);
    const running = runner.runOnce(KEY, REQUEST, "TAKE_OVER", work);
    await assert.rejects(running, rejectsWith("Unavailable"));
    assert.equal(runs, 0);
    assert.equal((await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work)).kind, "Completed");
  });

  test("runs unprotected where that is typed out and the service is away", async () => {
    const runner = new FakeRunner();
    runner.failNextStart(makeError("Unavailable", "away"));
    const options = { onUnavailable: "RUN_UNPROTECTED" } as const;
    const work: Work = (attempt) => {
      assert.deepEqual([attempt.unprotected, attempt.attemptNumber], [true, 0]);
      return DONE;
    };
    const result = await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work, options);
    assert.equal(result.kind === "Unprotected" && result.work, DONE);
    await assert.rejects(runner.lookup(KEY), rejectsWith("RecordNotFound"));
  });

  test("loses the next record: the error has the work, and the attempt ends unknown", async () => {
    const runner = new FakeRunner();
    runner.loseNextRecord();
    const running = runner.runOnce(KEY, REQUEST, "TAKE_OVER", () => DONE);
    await assert.rejects(
      running,
      (error) =>
        rejectsWith("OutcomeNotRecorded")(error) && (error as IdempotencyError).work === DONE,
    );
    const work: Work = (attempt) => {
      assert.equal(attempt.unknownAttempts, 1);
      return DONE;
    };
    assert.equal((await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work)).kind, "Completed");
  });

  test("answers InProgress while another call is at it, or waits for its outcome", async () => {
    const runner = new FakeRunner();
    const run = (work: Work, waitTimeoutMs = 0) =>
      runner.runOnce(KEY, REQUEST, "TAKE_OVER", work, { waitTimeoutMs });
    let end: ((work: WorkResult) => void) | undefined;
    const first = run(() => new Promise((resolve) => (end = resolve)));
    assert.equal((await run(() => DONE)).kind, "InProgress");
    const waiting = run(() => DONE, 60_000);
    end?.(DONE);
    assert.deepEqual([(await first).kind, (await waiting).kind], ["Completed", "Replayed"]);
  });

  test("asks fn to stop when the caller leaves, and records what it says", async () => {
    const controller = new AbortController();
    const work: Work = (attempt) => {
      controller.abort();
      assert.deepEqual([attempt.signal.aborted, attempt.stopReason], [true, "cancelled"]);
      return DONE;
    };
    const { signal } = controller;
    const runner = new FakeRunner();
    const result = await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work, { signal });
    assert.equal(result.kind, "Completed");
    const late = runner.runOnce(KEY, REQUEST, "TAKE_OVER", work, { signal });
    await assert.rejects(late, rejectsWith("Cancelled"));
  });

  test("takes what fn throws for what classify says", async () => {
    const runner = new FakeRunner();
    const work: Work = () => Promise.reject(new RangeError("x"));
    const classify = (error: unknown) => (error instanceof RangeError ? "final" : "unknown");
    const result = await runner.runOnce(KEY, REQUEST, "TAKE_OVER", work, { classify });
    assert.equal(result.kind === "Failed" && result.failure.disposition, "final");
    assert.ok(result.kind === "Failed" && result.thrown?.value instanceof RangeError);
  });

  test("answers a failure with the words that it replays", async () => {
    const runner = new FakeRunner();
    const run = () =>
      runner.runOnce(KEY, REQUEST, "HOLD", () => WorkResult.finalFailure("C".repeat(65), ""));
    const first = await run();
    assert.equal(first.kind === "Failed" && first.failure.code, "C".repeat(64));
    const second = await run();
    assert.deepEqual(
      second.kind === "Replayed" && second.failure,
      first.kind === "Failed" && first.failure,
    );
  });

  test("refuses bad arguments as the client does", async () => {
    const running = new FakeRunner().runOnce(KEY, REQUEST, "LATER" as "HOLD", () => DONE);
    await assert.rejects(running, refusesField("on_lease_expiry"));
  });

  test("looks up what a call left, with the body only if asked for", async () => {
    const runner = new FakeRunner();
    const labels = { order: "7" };
    await runner.runOnce(KEY, REQUEST, "HOLD", () => DONE, { labels });
    const shown = ({ outcome, ...record }: IdempotencyRecord) => [
      record.state,
      record.onLeaseExpiry,
      record.labels,
      outcome?.body && Buffer.from(outcome.body).toString(),
      outcome?.bodySize,
    ];
    const without = ["COMPLETED", "HOLD", labels, undefined, 4];
    assert.deepEqual(shown(await runner.lookup(KEY)), without);
    const withBody = ["COMPLETED", "HOLD", labels, "paid", 4];
    assert.deepEqual(shown(await runner.lookup(KEY, { includeBody: true })), withBody);
  });
});

test("fakeAttempt is a first attempt, but for what is changed", () => {
  const attempt = fakeAttempt({ unknownAttempts: 2 });
  assert.deepEqual([attempt.attemptNumber, attempt.unknownAttempts], [1, 2]);
  assert.equal(attempt.signal.aborted, false);
});
