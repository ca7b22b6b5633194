/** What the client refuses by itself: nothing is sent, and `fn` does not run. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import {
  credentials,
  IdempotencyClient,
  WorkResult,
  type ClientOptions,
  type Key,
  type OnLeaseExpiry,
  type Request,
  type RunOptions,
  type Work,
} from "@idempotencyd/client";

import { refusesField } from "./refusal.js";
import { StubService } from "./stub_service.js";

const KEY: Key = { merchantId: "acme", idempotencyKey: "k" };
const REQUEST: Request = { operation: "POST /payments", payload: { data: "{}" } };
const work: Work = () => WorkResult.completed({ statusCode: 200 });

// What is wrong, which argument it replaces, and the fields it is told by.
const BAD_ARGUMENTS: [what: string, Partial<Record<string, unknown>>, ...fields: string[]][] = [
  ["no key", { key: undefined }, "key"],
  ["an empty merchant", { key: { ...KEY, merchantId: "" } }, "merchant_id"],
  ["an empty key", { key: { ...KEY, idempotencyKey: "" } }, "idempotency_key"],
  ["a merchant that is a number", { key: { ...KEY, merchantId: 7 } }, "merchant_id"],
  ["a key that is an object", { key: { ...KEY, idempotencyKey: {} } }, "idempotency_key"],
  ["a lone surrogate in the key", { key: { ...KEY, idempotencyKey: "\ud800" } }, "idempotency_key"],
  ["a key's ttl that is text", { key: { ...KEY, ttlMs: "1" } }, "ttl"],
  ["all of the key", { key: {} }, "merchant_id", "idempotency_key"],
  ["no request", { request: null }, "request"],
  ["neither payload nor fingerprint", { request: { operation: "o" } }, "request"],
  [
    "both payload and fingerprint",
    { request: { ...REQUEST, fingerprint: new Uint8Array(32) } },
    "request",
  ],
  ["no operation", { request: { payload: { data: "" } } }, "operation"],
  [
    "a lone surrogate in the operation",
    { request: { ...REQUEST, operation: "\udfff" } },
    "operation",
  ],
  ["a misspelt member of the request", { request: { ...REQUEST, operatoin: "o" } }, "operatoin"],
  ["a payload that is text", { request: { operation: "o", payload: "{}" } }, "payload"],
  [
    "data that is an object",
    { request: { operation: "o", payload: { data: {} } } },
    "payload.data",
  ],
  [
    "a lone surrogate in the data",
    { request: { operation: "o", payload: { data: "\ud800" } } },
    "payload.data",
  ],
  [
    "a content type that is no string",
    { request: { operation: "o", payload: { data: "", contentType: 1 } } },
    "payload.content_type",
  ],
  ["a hexadecimal fingerprint", { request: { operation: "o", fingerprint: "ab" } }, "fingerprint"],
  [
    "a scheme that is no integer",
    { request: { operation: "o", fingerprint: new Uint8Array(32), fingerprintScheme: 0.5 } },
    "fingerprint_scheme",
  ],
  ["no on_lease_expiry", { onLeaseExpiry: undefined }, "on_lease_expiry"],
  ["an unknown on_lease_expiry", { onLeaseExpiry: "take_over" }, "on_lease_expiry"],
  ["no fn", { fn: undefined }, "fn"],
  ["an fn that is a promise", { fn: Promise.resolve() }, "fn"],
  ["options that are null", { options: null }, "options"],
  ["a misspelt option", { options: { leaseDuration: 1 } }, "leaseDuration"],
  ["labels that are text", { options: { labels: "x" } }, "labels"],
  ["a label that is a number", { options: { labels: { order: 7 } } }, 'labels["order"]'],
  ["a lone surrogate in a label", { options: { labels: { 'a"': "\ud800" } } }, 'labels["a\\""]'],
  [
    "a label that no object can hold",
    { options: { labels: JSON.parse('{"__proto__":"x"}') as unknown } },
    'labels["__proto__"]',
  ],
  ["an unknown on_unavailable", { options: { onUnavailable: "RUN" } }, "on_unavailable"],
  [
    "unprotected work under HOLD",
    { onLeaseExpiry: "HOLD", options: { onUnavailable: "RUN_UNPROTECTED" } },
    "on_unavailable",
  ],
  ["a classify that is no function", { options: { classify: "unknown" } }, "classify"],
  ["a signal that is a controller", { options: { signal: new AbortController() } }, "signal"],
  ...["ttl", "lease_duration", "wait_timeout", "max_duration", "start_timeout"].flatMap((field) => {
    const option = `${field.replace(/_./, (c) => c.slice(1).toUpperCase())}Ms`;
    return [-1, NaN, Infinity, 1e18, "1000", null, 5n].map((value): [string, object, string] => [
      `${option} of ${String(value)} (${typeof value})`,
      { options: { [option]: value } },
      field,
    ]);
  }),
  ["a max_duration of 0", { options: { maxDurationMs: 0 } }, "max_duration"],
  ["a start_timeout of 0", { options: { startTimeoutMs: 0 } }, "start_timeout"],
];

describe("runOnce refuses", () => {
  let service: StubService;
  let client: IdempotencyClient;
  before(async () => {
    service = await StubService.start();
    client = service.client();
  });
  after(async () => {
    await client.close();
    assert.deepEqual(service.requests.Begin, []);
    service.stop();
  });
  for (const [what, changes, ...fields] of BAD_ARGUMENTS) {
    test(what, async () => {
      let runs = 0;
      const counted: Work = (attempt) => {
        runs += 1;
        return work(attempt);
      };
      const given = {
        key: KEY,
        request: REQUEST,
        onLeaseExpiry: "TAKE_OVER",
        fn: counted,
        ...changes,
      };
      const { key, request, onLeaseExpiry, fn, options } = given as {
        key: Key;
        request: Request;
        onLeaseExpiry: OnLeaseExpiry;
        fn: Work;
        options?: RunOptions;
      };
      const running = client.runOnce(key, request, onLeaseExpiry, fn, options);
      await assert.rejects(running, refusesField(...fields));
      assert.equal(runs, 0);
    });
  }
  test("a lookup of an empty key", async () => {
    const key = { merchantId: "acme", idempotencyKey: "" };
    await assert.rejects(client.lookup(key), refusesField("idempotency_key"));
  });
  test("a lookup whose includeBody is text", async () => {
    const options = { includeBody: "yes" as unknown as boolean };
    await assert.rejects(client.lookup(KEY, options), refusesField("include_body"));
  });
});

describe("the client refuses", () => {
  const good = { target: "127.0.0.1:1", credentials: credentials.createInsecure() };
  const bad: [what: string, options: object | undefined, ...fields: string[]][] = [
    ["no options", undefined, "options"],
    ["no target", { ...good, target: undefined }, "target"],
    ["an empty target", { ...good, target: "" }, "target"],
    ["a target of an unknown scheme", { ...good, target: "unix-abstract-\n:x" }, "target"],
    ["no credentials", { ...good, credentials: undefined }, "credentials"],
    ["a misspelt option", { ...good, rpcTimeout: 1 }, "rpcTimeout"],
    ["a misspelt hook", { ...good, hooks: { onRetries: work } }, "onRetries"],
    ["a hook that is no function", { ...good, hooks: { onRetry: 1 } }, "onRetry"],
    ["an rpc_timeout of 0", { ...good, rpcTimeoutMs: 0 }, "rpc_timeout"],
    ["a negative record_timeout", { ...good, recordTimeoutMs: -1 }, "record_timeout"],
    ["a shutdown_timeout of text", { ...good, shutdownTimeoutMs: "1" }, "shutdown_timeout"],
    ["half a record", { ...good, maxBackgroundRecords: 0.5 }, "max_background_records"],
  ];
  for (const [what, options, ...fields] of bad) {
    test(what, () => {
      assert.throws(() => new IdempotencyClient(options as ClientOptions), refusesField(...fields));
    });
  }
});
