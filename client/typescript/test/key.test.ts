import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { businessKey, Key, randomRequestId } from "@idempotencyd/client";

import { refusesField } from "./refusal.js";
import { readVectors } from "./vector.js";

const vectors = readVectors("business_key") as {
  cases: { name: string; kind: string; parts: string[]; key: string }[];
  refused: { name: string; kind: string; parts: string[]; field: string }[];
};

describe("businessKey", () => {
  for (const { name, kind, parts, key } of vectors.cases) {
    test(name, () => {
      assert.equal(businessKey(kind, ...parts), key);
    });
  }
  for (const { name, kind, parts, field } of vectors.refused) {
    test(`refuses ${name}`, () => {
      assert.throws(() => businessKey(kind, ...parts), refusesField(field));
    });
  }
  for (const lone of ["\ud83d", "\udc00", "a\ud83db", "\udcb8\ud83d"]) {
    test(`refuses the lone surrogate of ${JSON.stringify(lone)}`, () => {
      assert.throws(() => businessKey("pay", "1", lone), refusesField("parts[1]"));
    });
  }
  for (const part of [7, null, undefined, {}, ["x"]]) {
    test(`refuses a part that is ${JSON.stringify(part)}`, () => {
      assert.throws(() => businessKey("pay", part as string), refusesField("parts[0]"));
    });
  }
  test("refuses a kind that is no string", () => {
    assert.throws(() => businessKey(undefined as unknown as string, "1"), refusesField("kind"));
  });
});

test("Key.business answers for 30 days", () => {
  assert.deepEqual(Key.business("acme", "pay", "order-7", "card"), {
    merchantId: "acme",
    idempotencyKey: "pay:order-7:card",
    ttlMs: 2_592_000_000,
  });
});

test("randomRequestId is a UUIDv4, another one each time", () => {
  const one = randomRequestId();
  assert.match(one, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual(randomRequestId(), one);
});
