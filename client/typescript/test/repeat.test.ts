/** How calls are repeated: what the scenarios show only by chance. */

import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { describe, test } from "node:test";

import { fromBinary } from "@bufbuild/protobuf";

import {
  BeginRequestSchema,
  LookupResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { DONE, errorOf, KEY, useStub } from "./stub_client.js";
import { Code, message, started } from "./stub_service.js";

const stub = useStub();

describe("start_timeout", () => {
  test("ends with what the service said, not with the try that it cut short", async () => {
    stub.service.on.Begin = (_, number) => (number < 3 ? { code: Code.UNAVAILABLE } : undefined);
    const error = await errorOf(stub.runOnce(() => DONE, { startTimeoutMs: 2_000 }));
    assert.equal(error.kind, "Unavailable");
    assert.equal(stub.service.requests.Begin.length, 3);
    // The last one may have started the attempt all the same.
    await stub.service.received("Fail", 1);
  });

  test("ends with DeadlineExceeded if the service never said anything", async () => {
    stub.service.on.Begin = () => undefined;
    const error = await errorOf(stub.runOnce(() => DONE, { startTimeoutMs: 50 }));
    assert.equal(error.kind, "DeadlineExceeded");
  });
});

describe("a lookup", () => {
  test("is repeated", async () => {
    stub.service.on.Lookup = (_, number) =>
      number < 3
        ? { code: Code.UNAVAILABLE }
        : message(LookupResponseSchema, { recordId: "r", labels: { order: "7" } });
    const record = await stub.client.lookup(KEY);
    assert.deepEqual([record.recordId, record.labels], ["r", { order: "7" }]);
  });

  test("is given up with its caller", async () => {
    stub.service.on.Lookup = () => undefined;
    const signal = AbortSignal.timeout(30);
    assert.equal((await errorOf(stub.client.lookup(KEY, { signal }))).kind, "DeadlineExceeded");
  });

  test("whose answer lacks what every answer has is Internal", async () => {
    stub.service.on.Lookup = () => new Uint8Array();
    assert.equal((await errorOf(stub.client.lookup(KEY))).kind, "Internal");
  });
});

test("identical Begins go out for one call, whatever the server answers between", async () => {
  stub.service.on.Begin = (request, number) =>
    number < 3 ? { code: Code.UNAVAILABLE } : started(fromBinary(BeginRequestSchema, request));
  await stub.runOnce(() => DONE, { labels: { b: "1", a: "2" } });
  const [first, ...others] = stub.service.requests.Begin;
  for (const other of others) assert.deepEqual(other, first);
});

describe("unprotected work", () => {
  const options = { onUnavailable: "RUN_UNPROTECTED", startTimeoutMs: 200 } as const;

  test("does not run when the service says not to repeat the call", async () => {
    const trailers = { "grpc-retry-pushback-ms": "-1" };
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "OVERLOADED", trailers });
    const error = await errorOf(stub.runOnce(() => DONE, options));
    assert.deepEqual([error.kind, error.work], ["Unavailable", undefined]);
  });

  test("does not run after a reason that this client does not know", async () => {
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "A_REASON_OF_NEXT_YEAR" });
    const error = await errorOf(stub.runOnce(() => DONE, options));
    assert.deepEqual([error.kind, error.work], ["Unavailable", undefined]);
    await stub.service.received("Fail", 1);
  });

  test("does not run if no try could be made in time", async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    try {
      // Accepted by the system, but no word of HTTP/2: the channel goes on connecting.
      const { port } = silent.address() as AddressInfo;
      stub.reconnect({ target: `127.0.0.1:${String(port)}` });
      const error = await errorOf(stub.runOnce(() => DONE, options));
      assert.deepEqual([error.kind, error.work], ["Unavailable", undefined]);
      assert.equal(stub.client.unprotectedRuns, 0);
    } finally {
      await stub.client.close();
      for (const socket of sockets) socket.destroy();
      silent.close();
    }
  });

  test("runs at once if the service asks for a pause beyond start_timeout", async () => {
    const trailers = { "grpc-retry-pushback-ms": "600000" };
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "OVERLOADED", trailers });
    const patient = { ...options, startTimeoutMs: 60_000 };
    assert.equal((await stub.runOnce(() => DONE, patient)).kind, "Unprotected");
    assert.equal(stub.service.requests.Begin.length, 1);
  });

  test("does not run after an answer that nobody can read", async () => {
    stub.service.on.Begin = () => new Uint8Array([0xff]);
    assert.equal((await errorOf(stub.runOnce(() => DONE, options))).kind, "Internal");
    assert.equal(stub.client.unprotectedRuns, 0);
  });

  test("is asked to stop after max_duration, and has no lease that ends", async () => {
    stub.service.on.Begin = () => ({ code: Code.UNAVAILABLE, reason: "DRAINING" });
    let remainingMs = 0;
    const result = await stub.runOnce(
      async (attempt) => {
        remainingMs = attempt.leaseRemainingMs();
        await new Promise((resolve) => {
          attempt.signal.addEventListener("abort", resolve);
        });
        assert.equal(attempt.stopReason, "max_duration");
        return DONE;
      },
      { ...options, maxDurationMs: 50 },
    );
    assert.deepEqual([result.kind, remainingMs], ["Unprotected", Infinity]);
    assert.equal(stub.service.requests.Renew.length, 0);
    assert.equal(stub.client.unprotectedRuns, 1);
  });
});
