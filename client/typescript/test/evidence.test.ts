/** What the client takes for proof that a Begin had no effect, and what it leaves behind otherwise. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { fromBinary } from "@bufbuild/protobuf";
import { Metadata, status as Code } from "@grpc/grpc-js";
import { credentials, type OnLeaseExpiry, type Rpc } from "@idempotencyd/client";

import { CallFailure } from "../src/call_failure.js";
import { Caller } from "../src/caller.js";
import { after } from "../src/clock.js";
import { repeat, type Core } from "../src/core.js";
import {
  FailRequestSchema,
  FailResponseSchema,
  LookupResponseSchema,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { channelOptionsOf, type Wire } from "../src/wire.js";
import { DONE, errorOf, KEY, REQUEST, useStub } from "./stub_client.js";
import { detailsOf, eventually, message } from "./stub_service.js";

describe("a try that failed", () => {
  const core = {
    options: { rpcTimeoutMs: 1_000, hooks: {} },
    refreshCredentials: () => Promise.resolve(),
    pause: () => Promise.resolve(),
  } as unknown as Core;
  const unavailable = new CallFailure(Code.UNAVAILABLE, "");

  // The channel's state before and after the one try, as Wire.downSince tells it.
  async function tracesOf(states: (number | undefined)[], failure: CallFailure, trusts = true) {
    const wire = {
      get downSince() {
        return states.shift();
      },
      call: () => Promise.resolve(failure),
    } as unknown as Wire;
    const one = {
      rpc: "Begin",
      schema: LookupResponseSchema,
      request: Buffer.alloc(0),
      isWhole: () => true,
    } as const;
    const traces = { mayHaveEffect: false, wasReached: false };
    const plan = { wire, nextTry: () => one, giveUpAt: after(10), trustsState: trusts };
    await repeat(core, new Caller(), plan, traces);
    return traces;
  }

  const nothing = { mayHaveEffect: false, wasReached: false };
  const something = { mayHaveEffect: true, wasReached: true };

  test("was never sent if there was no connection before, in and after it", async () => {
    assert.deepEqual(await tracesOf([3, 3], unavailable), nothing);
  });
  test("may have been sent if a connection came and went meanwhile", async () => {
    assert.deepEqual(await tracesOf([3, 5], unavailable), something);
  });
  test("may have been sent if there was a connection before, or is one afterwards", async () => {
    assert.deepEqual(await tracesOf([undefined, 3], unavailable), something);
    assert.deepEqual(await tracesOf([3, undefined], unavailable), something);
    assert.deepEqual(await tracesOf([undefined, undefined], unavailable), something);
  });
  test("may have been sent if it ended otherwise than UNAVAILABLE", async () => {
    for (const code of [Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.INTERNAL, Code.UNKNOWN]) {
      assert.deepEqual(await tracesOf([3, 3], new CallFailure(code, "")), something);
    }
  });
  test("is not trusted to be never sent under HOLD", async () => {
    assert.deepEqual(await tracesOf([3, 3], unavailable, false), something);
  });

  const reasons: [Code, string, object][] = [
    [Code.UNAVAILABLE, "STORE_UNAVAILABLE", nothing],
    [Code.UNAVAILABLE, "OVERLOADED", nothing],
    [Code.UNAVAILABLE, "DRAINING", nothing],
    [Code.UNAVAILABLE, "COMMIT_UNKNOWN", something],
    [Code.UNAVAILABLE, "SCHEMA_INCOMPATIBLE", { mayHaveEffect: false, wasReached: true }],
    [Code.RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED", { mayHaveEffect: false, wasReached: true }],
    [Code.UNAUTHENTICATED, "CREDENTIALS_MISSING", { mayHaveEffect: false, wasReached: true }],
    [Code.INTERNAL, "INTERNAL", something],
  ];
  for (const [code, reason, expected] of reasons) {
    test(`refused with ${reason} leaves ${JSON.stringify(expected)}`, async () => {
      const metadata = new Metadata();
      metadata.set("grpc-status-details-bin", detailsOf(code, reason));
      const failure = new CallFailure(code, "", metadata);
      assert.deepEqual(await tracesOf([undefined, undefined], failure), expected);
    });
  }
});

describe("a call that gave up", () => {
  const stub = useStub();

  async function lookupTwice(retried: Rpc[]): Promise<void> {
    const controller = new AbortController();
    const looking = errorOf(stub.client.lookup(KEY, { signal: controller.signal }));
    await eventually(() => retried.filter((rpc) => rpc === "Lookup").length >= 2);
    controller.abort();
    await looking;
  }

  // The release that goes on in the background, seen by its being repeated.
  async function releasesWithoutService(onLeaseExpiry: OnLeaseExpiry): Promise<boolean> {
    const retried: Rpc[] = [];
    stub.reconnect({
      target: "127.0.0.1:1",
      credentials: credentials.createInsecure(),
      hooks: { onRetry: (rpc) => retried.push(rpc) },
    });
    // Until it is known that there is no connection.
    await lookupTwice(retried);
    const options = { startTimeoutMs: 200 };
    await errorOf(stub.client.runOnce(KEY, REQUEST, onLeaseExpiry, () => DONE, options));
    // A release, which has begun by now, fails as fast as they do.
    const before = retried.splice(0).length;
    assert.ok(before >= 2);
    await lookupTwice(retried);
    return retried.includes("Fail");
  }
  test("leaves nothing behind if nothing was ever sent", async () => {
    assert.equal(await releasesWithoutService("TAKE_OVER"), false);
  });
  test("leaves a release behind under HOLD all the same", async () => {
    assert.equal(await releasesWithoutService("HOLD"), true);
  });

  test("releases once more when the service does not know the attempt yet", async () => {
    stub.service.on.Begin = () => undefined;
    stub.service.on.Fail = (_, number) =>
      number === 1
        ? { code: Code.NOT_FOUND, reason: "RECORD_NOT_FOUND" }
        : message(FailResponseSchema, { finishTime: { seconds: 1n } });
    await errorOf(stub.runOnce(() => DONE, { signal: AbortSignal.timeout(50) }));
    await stub.service.received("Fail", 2);
    const [first, second] = stub.service.requests.Fail;
    assert.deepEqual(second, first);
    const { failure } = fromBinary(FailRequestSchema, first ?? Buffer.alloc(0));
    assert.deepEqual([failure?.disposition, failure?.code], [1, "NOT_BEGUN"]);
  });

  test("looks late only once", async () => {
    stub.reconnect({ shutdownTimeoutMs: 60_000 });
    stub.service.on.Begin = () => undefined;
    stub.service.on.Fail = () => ({ code: Code.NOT_FOUND, reason: "RECORD_NOT_FOUND" });
    await errorOf(stub.runOnce(() => DONE, { signal: AbortSignal.timeout(50) }));
    // Waits for the release to end.
    await stub.client.close();
    assert.equal(stub.service.requests.Fail.length, 2);
  });

  test("does not take a release that is refused for one that has to be told", async () => {
    const told: string[] = [];
    stub.reconnect({ hooks: { onOutcomeNotRecorded: (_, __, { kind }) => told.push(kind) } });
    stub.service.on.Begin = () => ({ code: Code.ABORTED, reason: "LEASE_LOST" });
    stub.service.on.Fail = () => ({ code: Code.ABORTED, reason: "LEASE_LOST" });
    await errorOf(stub.runOnce(() => DONE));
    await stub.service.received("Fail", 1);
    await stub.client.close();
    assert.deepEqual([told, stub.service.requests.Fail.length], [[], 1]);
  });
});

describe("channel options", () => {
  const wire = {
    target: "t",
    credentials: credentials.createInsecure(),
    channelOptions: {},
    keepaliveIntervalMs: 20_000,
    keepaliveTimeoutMs: 10_000,
    maxReconnectBackoffMs: 5_000,
  };
  test("are what the service and this library need", () => {
    assert.deepEqual(channelOptionsOf(wire), {
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.keepalive_permit_without_calls": 1,
      "grpc.enable_retries": 0,
      "grpc.service_config_disable_resolution": 1,
      "grpc.service_config": '{"loadBalancingConfig": [{"round_robin": {}}]}',
      "grpc.initial_reconnect_backoff_ms": 200,
      "grpc.max_reconnect_backoff_ms": 5_000,
      "grpc.max_send_message_length": 4_194_304,
      "grpc.max_receive_message_length": 4_194_304,
      "grpc.use_local_subchannel_pool": 1,
    });
  });
  test("ping no more often than the server allows", () => {
    const options = channelOptionsOf({ ...wire, keepaliveIntervalMs: 1 });
    assert.equal(options["grpc.keepalive_time_ms"], 10_000);
  });
  test("of the program's do not replace them, and others are passed on", () => {
    const given = { "grpc.enable_retries": 1, "grpc.primary_user_agent": "shop" };
    const options = channelOptionsOf({ ...wire, channelOptions: given });
    assert.equal(options["grpc.enable_retries"], 0);
    assert.equal(options["grpc.primary_user_agent"], "shop");
  });
});
