/** Parts of the client by themselves, where only they can be judged. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { Metadata, status as Code } from "@grpc/grpc-js";

import { Backoff } from "../src/backoff.js";
import { CallFailure } from "../src/call_failure.js";
import { Caller } from "../src/caller.js";
import { elapsedMs, now } from "../src/clock.js";
import { cleanText, isWellFormed } from "../src/text.js";
import {
  RetryInfoSchema,
  StatusDetailsSchema,
} from "../src/gen/idempotency/client/v1/status_details_pb.js";
import { detailsOf, message } from "./stub_service.js";

describe("Backoff", () => {
  test("doubles from 50 ms to its longest, each wait from the upper half", () => {
    const backoff = new Backoff(300);
    for (const most of [50, 100, 200, 300, 300]) {
      const waitMs = backoff.next(undefined);
      assert.ok(waitMs >= most / 2 && waitMs <= most, `${String(waitMs)} of ${String(most)}`);
    }
    backoff.reset();
    assert.ok(backoff.next(undefined) <= 50);
  });

  test("waits as long as the server asks, up to a fifth more, a minute at most", () => {
    const backoff = new Backoff();
    for (const [asked, least, most] of [
      [0, 0, 0],
      [1_000, 1_000, 1_200],
      [3_600_000, 60_000, 72_000],
    ] as const) {
      const waitMs = backoff.next(asked);
      assert.ok(waitMs >= least && waitMs <= most, String(waitMs));
    }
    assert.ok(backoff.next(undefined) <= 50);
  });
});

describe("the clock", () => {
  const then = now();
  test("counts what the monotonic clock has gone", () => {
    const elapsed = elapsedMs({ ...then, monotonic: then.monotonic - 5_000 });
    assert.ok(elapsed >= 5_000);
  });
  test("counts what only the wall clock has gone, as over a suspended machine", () => {
    assert.ok(elapsedMs({ ...then, wall: then.wall - 5_000 }) >= 5_000);
  });
  test("never runs backwards", () => {
    const future = { monotonic: then.monotonic + 1e9, wall: then.wall + 1e9 };
    assert.equal(elapsedMs(future), 0);
  });
});

describe("CallFailure", () => {
  const withTrailers = (code: Code, trailers: Record<string, string | Buffer>): CallFailure => {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(trailers)) metadata.set(name, value);
    return new CallFailure(code, "words", metadata);
  };
  const withReason = (code: Code, reason: string, domain?: string): CallFailure =>
    withTrailers(code, { "grpc-status-details-bin": detailsOf(code, reason, domain) });

  test("had an effect unless a reason or the size says that it had none", () => {
    const effects: [CallFailure, boolean][] = [
      [new CallFailure(Code.UNAVAILABLE, ""), true],
      [new CallFailure(Code.DEADLINE_EXCEEDED, ""), true],
      [new CallFailure(Code.RESOURCE_EXHAUSTED, ""), false],
      [withReason(Code.UNAVAILABLE, "COMMIT_UNKNOWN"), true],
      [withReason(Code.INTERNAL, "INTERNAL"), true],
      [withReason(Code.UNAVAILABLE, "OVERLOADED"), false],
      [withReason(Code.ABORTED, "LEASE_LOST"), false],
      [withReason(Code.UNAVAILABLE, "SCHEMA_INCOMPATIBLE"), false],
      [withReason(Code.UNAVAILABLE, "A_REASON_OF_NEXT_YEAR"), true],
      [withReason(Code.RESOURCE_EXHAUSTED, "A_REASON_OF_NEXT_YEAR"), true],
      [withReason(Code.UNAVAILABLE, "UNSPECIFIED"), true],
      [withReason(Code.UNAVAILABLE, "12"), true],
    ];
    for (const [failure, effect] of effects) assert.equal(failure.mayHaveEffect, effect);
  });

  test("takes no reason from another domain", () => {
    const failure = withReason(Code.UNAVAILABLE, "OVERLOADED", "proxy.example");
    assert.deepEqual([failure.reason, failure.wasUnserved], ["", false]);
  });

  for (const pushback of ["-1", "", "x", "1.5", "2147483648", "9".repeat(400), " 5", "5,5"]) {
    test(`is not repeated after the pushback ${JSON.stringify(pushback)}`, () => {
      const failure = withTrailers(Code.UNAVAILABLE, { "grpc-retry-pushback-ms": pushback });
      assert.deepEqual([failure.mustNotRetry, failure.isWorthRepeating], [true, false]);
      assert.equal(failure.isWorthRecordingAgain, true);
    });
  }

  test("is not repeated after several pushbacks", () => {
    const metadata = new Metadata();
    metadata.add("grpc-retry-pushback-ms", "5");
    metadata.add("grpc-retry-pushback-ms", "5");
    assert.equal(new CallFailure(Code.UNAVAILABLE, "", metadata).mustNotRetry, true);
  });

  for (const [pushback, ms] of [
    ["0", 0],
    ["250", 250],
    ["2147483647", 2_147_483_647],
  ] as const) {
    test(`waits as long as the pushback ${pushback} says`, () => {
      const failure = withTrailers(Code.UNAVAILABLE, { "grpc-retry-pushback-ms": pushback });
      assert.deepEqual([failure.mustNotRetry, failure.retryAfterMs], [false, ms]);
    });
  }

  test("waits for no RetryInfo beside a pushback that says not to repeat", () => {
    const retryInfo = message(RetryInfoSchema, { retryDelay: { seconds: 7n } });
    const details = [{ typeUrl: "type.googleapis.com/google.rpc.RetryInfo", value: retryInfo }];
    const status = Buffer.from(message(StatusDetailsSchema, { code: Code.UNAVAILABLE, details }));
    const retryAfterOf = (trailers: Record<string, string>) =>
      withTrailers(Code.UNAVAILABLE, { "grpc-status-details-bin": status, ...trailers })
        .retryAfterMs;
    assert.equal(retryAfterOf({}), 7_000);
    assert.equal(retryAfterOf({ "grpc-retry-pushback-ms": "-1" }), undefined);
  });

  test("is worth recording again by its code", () => {
    const isWorth = (name: string) =>
      new CallFailure(Code[name as keyof typeof Code], "").isWorthRecordingAgain;
    const names = Object.keys(Code).filter((name) => Number.isNaN(Number(name)) && name !== "OK");
    assert.deepEqual(
      names.filter((name) => !isWorth(name)),
      [
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
      ],
    );
  });
});

describe("Caller", () => {
  test("is gone for the reason that its signal has", () => {
    const reasons: [unknown, string][] = [
      [undefined, "cancelled"],
      [new DOMException("x", "TimeoutError"), "deadline"],
      [null, "cancelled"],
      ["TimeoutError", "cancelled"],
    ];
    for (const [reason, why] of reasons) {
      assert.equal(new Caller(AbortSignal.abort(reason)).whyGone, why);
    }
  });

  test("wakes a sleeper when it leaves, and tells a listener once", async () => {
    const caller = new Caller();
    const told: string[] = [];
    caller.onGone((why) => told.push(why));
    const forgotten = caller.onGone((why) => told.push(`not ${why}`));
    forgotten();
    const asleep = caller.sleep(2 ** 40);
    caller.leave("deadline");
    caller.leave("cancelled");
    await asleep;
    assert.deepEqual([told, caller.whyGone], [["deadline"], "deadline"]);
  });
});

describe("text", () => {
  test("is cut between characters, with lone surrogates replaced", () => {
    assert.equal(cleanText("é".repeat(40), 64), "é".repeat(32));
    assert.equal(cleanText("a💳", 4), "a");
    assert.equal(cleanText("a💳", 5), "a💳");
    assert.equal(cleanText("a\ud83db", 64), "a?b");
  });
  test("is well formed without lone surrogates", () => {
    assert.equal(isWellFormed("a💳💳é"), true);
    for (const lone of ["\ud83d", "\udcb3", "💳\ud83d", "\udcb3💳"]) {
      assert.equal(isWellFormed(lone), false);
    }
  });
});
