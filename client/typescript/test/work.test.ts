/** What becomes of fn, of what it says, and who is told. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";

import { fromBinary } from "@bufbuild/protobuf";
import {
  httpAnswer,
  WorkResult,
  type IdempotencyError,
  type RunOptions,
  type RunResult,
} from "@idempotencyd/client";

import {
  BeginRequestSchema,
  CompleteRequestSchema,
  CompleteResponseSchema,
  FailRequestSchema,
  RenewResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { DONE, errorOf, useStub } from "./stub_client.js";
import { Code, message, started } from "./stub_service.js";

const stub = useStub();

function failureOf(result: RunResult): { disposition: string; code: string; thrown: unknown } {
  assert.equal(result.kind, "Failed");
  if (result.kind !== "Failed") throw new Error();
  const { disposition, code } = result.failure;
  return { disposition, code, thrown: result.thrown?.value };
}

function detached(): Uint8Array {
  const bytes = new Uint8Array(8);
  structuredClone(bytes, { transfer: [bytes.buffer] });
  return bytes;
}

describe("fn", () => {
  test("that returns what throws when it is read is unknown", async () => {
    const work = {
      get kind(): never {
        throw new Error("getter");
      },
    };
    const result = await stub.runOnce(() => work as unknown as WorkResult);
    assert.equal(failureOf(result).disposition, "unknown");
  });

  test("may be synchronous", async () => {
    assert.equal((await stub.runOnce(() => DONE)).kind, "Completed");
  });

  for (const thrown of [undefined, null, 0, "text", { code: 1 }, new TypeError("x")]) {
    test(`that throws ${inspect(thrown)} is unknown`.split("\n", 1).join(), async () => {
      const result = await stub.runOnce(() => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- what it is about
        throw thrown;
      });
      assert.deepEqual(failureOf(result), { disposition: "unknown", code: "EXCEPTION", thrown });
    });
  }

  test("that throws sends nothing of the error", async () => {
    await stub.runOnce(() => Promise.reject(new Error("card 4111111111111111")));
    const { failure } = fromBinary(
      FailRequestSchema,
      stub.service.requests.Fail[0] ?? Buffer.alloc(0),
    );
    assert.equal(failure?.code, "EXCEPTION");
    assert.doesNotMatch(JSON.stringify(failure), /4111/);
  });

  for (const value of [undefined, null, 7, "done", {}, { kind: "completed" }, { kind: "done" }]) {
    test(`that returns ${JSON.stringify(value)} is unknown, whatever classify says`, async () => {
      const classify = () => "not_applied" as const;
      const result = await stub.runOnce(() => value as unknown as WorkResult, { classify });
      assert.equal(failureOf(result).disposition, "unknown");
      assert.ok(failureOf(result).thrown instanceof TypeError);
    });
  }

  const classifies: [string, () => unknown][] = [
    [
      "throws",
      () => {
        throw new Error("classify");
      },
    ],
    ["gives another word", () => "NOT_APPLIED"],
    ["gives a promise", () => Promise.resolve("not_applied")],
    ["gives a promise that rejects", () => Promise.reject(new Error("classify"))],
  ];
  for (const [what, classify] of classifies) {
    test(`is unknown when classify ${what}`, async () => {
      const options = { classify } as RunOptions;
      const result = await stub.runOnce(() => Promise.reject(new Error("x")), options);
      assert.equal(failureOf(result).disposition, "unknown");
    });
  }

  test("does not run twice when it is slow", async () => {
    let runs = 0;
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 90);
    stub.service.on.Renew = () => message(RenewResponseSchema, { leaseRemaining: { nanos: 90e6 } });
    await stub.runOnce(async () => {
      runs += 1;
      await stub.service.received("Renew", 3);
      return DONE;
    });
    assert.equal(runs, 1);
  });
});

describe("a failure", () => {
  const longWords = { code: "é".repeat(40), message: "💳".repeat(300) };
  const cutWords = { code: "é".repeat(32), message: "💳".repeat(256) };

  test("says in its result what is recorded", async () => {
    const work = WorkResult.finalFailure(longWords.code, longWords.message);
    const result = await stub.runOnce(() => work);
    const request = stub.service.requests.Fail[0] ?? Buffer.alloc(0);
    const { failure } = fromBinary(FailRequestSchema, request);
    for (const said of [result.kind === "Failed" ? result.failure : undefined, failure]) {
      assert.deepEqual({ code: said?.code, message: said?.message }, cutWords);
    }
  });

  test("says the same when it ran unprotected", async () => {
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "DRAINING" });
    const work = WorkResult.finalFailure(longWords.code, longWords.message);
    const options = { onUnavailable: "RUN_UNPROTECTED", startTimeoutMs: 50 } as const;
    const result = await stub.runOnce(() => work, options);
    const failure = result.kind === "Unprotected" ? result.work.failure : undefined;
    assert.deepEqual({ code: failure?.code, message: failure?.message }, cutWords);
  });

  for (const failure of [{}, { disposition: "FINAL", code: 7, message: null }]) {
    test(`of ${JSON.stringify(failure)} is unknown, with empty words`, async () => {
      const work = { kind: "failed", failure } as unknown as WorkResult;
      const result = await stub.runOnce(() => work);
      assert.deepEqual(failureOf(result), { disposition: "unknown", code: "", thrown: undefined });
      assert.equal(httpAnswer(result).status, 502);
    });
  }
});

describe("an outcome", () => {
  test("is recorded with the bytes it had when fn returned", async () => {
    const body = Buffer.from("paid");
    stub.service.on.Complete = (_, number) => {
      body.fill(0);
      return number < 3
        ? { code: Code.UNAVAILABLE }
        : message(CompleteResponseSchema, { finishTime: { seconds: 1n } });
    };
    const result = await stub.runOnce(() => WorkResult.completed({ statusCode: 201, body }));
    const [first, ...others] = stub.service.requests.Complete;
    assert.equal(others.length, 2);
    for (const other of others) assert.deepEqual(other, first);
    const { outcome } = fromBinary(CompleteRequestSchema, first ?? Buffer.alloc(0));
    assert.equal(Buffer.from(outcome?.body ?? []).toString(), "paid");
    assert.equal(result.kind === "Completed" && result.outcome.statusCode, 201);
  });

  const unsendable: [string, object, string][] = [
    ["a status code over 32 bits", { statusCode: 2 ** 31 }, "outcome.status_code"],
    ["a status code that is text", { statusCode: "201" }, "outcome.status_code"],
    ["headers that are an object", { statusCode: 1, headers: { a: "b" } }, "outcome.headers"],
    [
      "a header without a value",
      { statusCode: 1, headers: [{ name: "a" }] },
      "outcome.headers[0].value",
    ],
    ["a body that is an object", { statusCode: 1, body: {} }, "outcome.body"],
    ["a lone surrogate", { statusCode: 1, contentType: "\ud800" }, "outcome.content_type"],
    ["a body that was transferred", { statusCode: 1, body: detached() }, "outcome"],
  ];
  for (const [what, outcome, field] of unsendable) {
    test(`with ${what} comes back by its field, and the hook is told`, async () => {
      const told: IdempotencyError[] = [];
      stub.reconnect({
        hooks: { onOutcomeNotRecorded: (_key, _work, error) => told.push(error) },
      });
      const work = { kind: "completed", outcome } as unknown as WorkResult;
      const error = await errorOf(stub.runOnce(() => work));
      assert.equal(error.kind, "InvalidField");
      assert.deepEqual(
        error.violations.map((violation) => violation.field),
        [field],
      );
      assert.equal(error.work, work);
      assert.deepEqual(
        told.map(({ kind, work: toldWork }) => [kind, toldWork]),
        [["InvalidField", work]],
      );
      assert.equal(stub.service.requests.Complete.length, 0);
    });
  }

  test("refused for its credentials is sent once more, with fresh ones", async () => {
    let refreshes = 0;
    const hooks = {
      refreshCredentials: () => (refreshes += 1),
      onOutcomeNotRecorded: () => undefined,
    };
    stub.reconnect({ hooks });
    stub.service.on.Complete = () => ({
      code: Code.UNAUTHENTICATED,
      reason: "CREDENTIALS_INVALID",
    });
    const error = await errorOf(stub.runOnce(() => DONE));
    assert.deepEqual([error.kind, error.work], ["Unauthenticated", DONE]);
    assert.deepEqual([refreshes, stub.service.requests.Complete.length], [1, 2]);
  });

  test("that is lost without a hook is a process warning", async () => {
    stub.service.on.Complete = () => ({ code: Code.ABORTED, reason: "LEASE_LOST" });
    const warned = new Promise<Error & { code?: string }>((resolve) => {
      process.once("warning", resolve);
    });
    await errorOf(stub.runOnce(() => DONE));
    assert.equal((await warned).code, "IDEMPOTENCY_OUTCOME_NOT_RECORDED");
    assert.doesNotMatch((await warned).message, /paid/);
  });

  test("does not show in the error that a logger prints", async () => {
    stub.service.on.Complete = () => ({ code: Code.ABORTED, reason: "LEASE_LOST" });
    stub.reconnect({ hooks: { onOutcomeNotRecorded: () => undefined } });
    const error = await errorOf(stub.runOnce(() => DONE));
    assert.doesNotMatch(inspect(error, { depth: 9 }), /paid/);
    assert.doesNotMatch(JSON.stringify(error), /paid/);
    assert.equal(error.work, DONE);
  });
});

describe("hooks", () => {
  const failing = {
    throws: () => {
      throw new Error("hook");
    },
    rejects: () => Promise.reject(new Error("hook")),
  };
  for (const [how, hook] of Object.entries(failing)) {
    test(`that one ${how} costs nothing`, async () => {
      stub.reconnect({
        hooks: { onRetry: hook, refreshCredentials: hook, onOutcomeNotRecorded: hook },
      });
      stub.service.on.Begin = (request, number) => {
        if (number === 1) return { code: Code.UNAVAILABLE };
        if (number === 2) return { code: Code.UNAUTHENTICATED };
        return started(fromBinary(BeginRequestSchema, request));
      };
      stub.service.on.Complete = () => ({ code: Code.ABORTED });
      assert.equal((await errorOf(stub.runOnce(() => DONE))).kind, "LeaseLost");
    });
  }

  test("refreshCredentials is waited for", async () => {
    let isFresh = false;
    const refreshCredentials = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      isFresh = true;
    };
    stub.reconnect({ hooks: { refreshCredentials } });
    stub.service.on.Begin = (request) =>
      isFresh
        ? started(fromBinary(BeginRequestSchema, request))
        : { code: Code.UNAUTHENTICATED, reason: "CREDENTIALS_INVALID" };
    assert.equal((await stub.runOnce(() => DONE)).kind, "Completed");
    assert.equal(stub.service.requests.Begin.length, 2);
  });

  test("refreshCredentials that never ends does not hold the call for ever", async () => {
    const refreshCredentials = () => new Promise(() => undefined);
    stub.reconnect({ rpcTimeoutMs: 100, hooks: { refreshCredentials } });
    stub.service.on.Begin = () => ({ code: Code.UNAUTHENTICATED });
    assert.equal((await errorOf(stub.runOnce(() => DONE))).kind, "Unauthenticated");
  });
});
