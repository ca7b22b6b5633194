/** What a Begin comes to, and that no answer but one is a right to work. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { ErrorKind } from "@idempotencyd/client";

import {
  BeginRequestSchema,
  BeginResponseSchema,
  FailRequestSchema,
  RenewResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import type { LeaseExpiryAction } from "../src/gen/idempotency/v1/record_pb.js";
import { DONE, errorOf, useStub } from "./stub_client.js";
import { Code, message, started } from "./stub_service.js";

const stub = useStub();

describe("a Begin", () => {
  test("is never answered twice with the same attempt id by two calls", async () => {
    await stub.runOnce(() => DONE);
    await stub.runOnce(() => DONE);
    const ids = stub.service.requests.Begin.map(
      (bytes) => fromBinary(BeginRequestSchema, bytes).attemptId,
    );
    assert.equal(new Set(ids).size, 2);
    for (const id of ids) assert.match(id, /^[0-9a-f-]{14}4[0-9a-f]{3}-[89ab]/);
  });

  test("that starts another attempt than ours is no right to work, and is released", async () => {
    stub.service.on.Begin = (request) =>
      started({ ...fromBinary(BeginRequestSchema, request), attemptId: "somebody else's" });
    let runs = 0;
    const counted = () => {
      runs += 1;
      return DONE;
    };
    const error = await errorOf(stub.runOnce(counted));
    assert.deepEqual([error.kind, runs, error.work], ["Internal", 0, undefined]);
    await stub.service.received("Fail", 1);
  });

  test("without a lease is no right to work", async () => {
    stub.service.on.Begin = (request) => {
      const { attemptId } = fromBinary(BeginRequestSchema, request);
      return message(BeginResponseSchema, { result: { case: "started", value: { attemptId } } });
    };
    let runs = 0;
    const counted = () => {
      runs += 1;
      return DONE;
    };
    assert.equal((await errorOf(stub.runOnce(counted))).kind, "Internal");
    assert.equal(runs, 0);
  });

  const lacking: [string, MessageInitShape<typeof BeginResponseSchema>, object][] = [
    ["a record id", { recordId: "" }, {}],
    ["an attempt number", {}, { attemptNumber: 0 }],
    ["a downstream key", {}, { downstreamKey: "" }],
    ["a whole downstream key", {}, { downstreamKey: "6ba7b810-9dad-51d1-80b4-00c04fd430c" }],
  ];
  for (const [what, answerChange, startedChange] of lacking) {
    test(`without ${what} is no right to work, and is released`, async () => {
      stub.service.on.Begin = (request) => {
        const answer = fromBinary(
          BeginResponseSchema,
          started(fromBinary(BeginRequestSchema, request)),
        );
        Object.assign(answer, answerChange);
        Object.assign(answer.result.value ?? {}, startedChange);
        return message(BeginResponseSchema, answer);
      };
      let runs = 0;
      const error = await errorOf(stub.runOnce(() => (runs++, DONE)));
      assert.deepEqual([error.kind, runs], ["Internal", 0]);
      await stub.service.received("Fail", 1);
    });
  }

  for (const [action, counted] of [
    [1, "TAKE_OVER"],
    [2, "HOLD"],
    [0, "HOLD"],
    [9, "HOLD"],
  ] as const) {
    test(`in force under the action ${String(action)} counts as ${counted}`, async () => {
      stub.service.on.Begin = (request) =>
        started({
          ...fromBinary(BeginRequestSchema, request),
          // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- one of next year
          onLeaseExpiry: action as LeaseExpiryAction,
        });
      let seen = "";
      await stub.runOnce((attempt) => {
        seen = attempt.onLeaseExpiry;
        return DONE;
      });
      assert.equal(seen, counted);
    });
  }

  test("told to ask again at once is not sent in a busy loop", async () => {
    stub.service.on.Begin = () =>
      message(BeginResponseSchema, {
        recordId: "r",
        result: { case: "inProgress", value: { attemptNumber: 1, retryAfter: { seconds: 0n } } },
      });
    const result = await stub.runOnce(() => DONE, { waitTimeoutMs: 100 });
    assert.equal(result.kind, "InProgress");
    assert.ok(stub.service.requests.Begin.length <= 11);
  });

  test("whose lease is over needs a Renew first", async () => {
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 0);
    let renewedBefore = -1;
    await stub.runOnce(() => {
      renewedBefore = stub.service.requests.Renew.length;
      return DONE;
    });
    assert.equal(renewedBefore, 1);
  });

  test("whose lease cannot be made good is given up and released", async () => {
    stub.service.on.Begin = (request) => started(fromBinary(BeginRequestSchema, request), 0);
    stub.service.on.Renew = () => message(RenewResponseSchema, { leaseRemaining: { seconds: 0n } });
    let runs = 0;
    const counted = () => {
      runs += 1;
      return DONE;
    };
    const error = await errorOf(stub.runOnce(counted));
    assert.deepEqual([error.kind, runs], ["LeaseLost", 0]);
    await stub.service.received("Fail", 1);
    const { failure } = fromBinary(
      FailRequestSchema,
      stub.service.requests.Fail[0] ?? Buffer.alloc(0),
    );
    assert.equal(failure?.code, "NOT_BEGUN");
  });

  test("is not sent for a caller that is gone already", async () => {
    const error = await errorOf(stub.runOnce(() => DONE, { signal: AbortSignal.abort() }));
    assert.equal(error.kind, "Cancelled");
    assert.equal(stub.service.requests.Begin.length, 0);
  });

  test("is given up when AbortSignal.timeout says so, as DeadlineExceeded", async () => {
    stub.service.on.Begin = () => undefined;
    const error = await errorOf(stub.runOnce(() => DONE, { signal: AbortSignal.timeout(50) }));
    assert.equal(error.kind, "DeadlineExceeded");
    await stub.service.received("Fail", 1);
  });

  const kinds: [Code, string, ErrorKind][] = [
    [Code.INVALID_ARGUMENT, "", "InvalidField"],
    [Code.RESOURCE_EXHAUSTED, "", "RequestTooLarge"],
    [Code.PERMISSION_DENIED, "", "PermissionDenied"],
    [Code.NOT_FOUND, "", "RecordNotFound"],
    [Code.ABORTED, "", "LeaseLost"],
    [Code.CANCELLED, "", "Unavailable"],
    [Code.UNKNOWN, "", "Internal"],
    [Code.DATA_LOSS, "A_REASON_OF_NEXT_YEAR", "Internal"],
    [Code.PERMISSION_DENIED, "A_REASON_OF_NEXT_YEAR", "PermissionDenied"],
    [Code.FAILED_PRECONDITION, "KEY_REUSED", "KeyReused"],
    [Code.FAILED_PRECONDITION, "NEEDS_RESOLUTION", "NeedsResolution"],
  ];
  for (const [code, reason, kind] of kinds) {
    test(`refused with ${Code[code]} ${reason} is ${kind}`, async () => {
      stub.service.on.Begin = () => ({ code, ...(reason !== "" && { reason }), details: "words" });
      const error = await errorOf(stub.runOnce(() => DONE));
      assert.deepEqual([error.kind, error.reason, error.grpcCode], [kind, reason, code]);
      assert.equal(error.name, `${kind}Error`);
      assert.match(error.stack ?? "", new RegExp(`^${kind}Error: words`));
    });
  }

  test("takes nothing from details that are garbage", async () => {
    const trailers = { "grpc-status-details-bin": Buffer.from("\xff\xff\xff garbage", "latin1") };
    stub.service.on.Begin = () => ({ code: Code.PERMISSION_DENIED, trailers });
    const error = await errorOf(stub.runOnce(() => DONE));
    assert.deepEqual([error.kind, error.reason], ["PermissionDenied", ""]);
  });
});
