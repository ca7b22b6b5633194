import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { downstreamKeyFor, type DownstreamKeyShape } from "@idempotencyd/client";
import { fakeAttempt } from "@idempotencyd/client/testing";

import { refusesField } from "./refusal.js";
import { readVectors } from "./vector.js";

interface Case {
  downstream_key: string;
  partner: string;
  shape: DownstreamKeyShape;
}
const vectors = readVectors("downstream_key") as {
  cases: (Case & { key: string })[];
  refused: (Case & { name: string; field: string })[];
};

describe("downstreamKeyFor", () => {
  for (const { downstream_key, partner, shape, key } of vectors.cases) {
    test(`${downstream_key} ${partner} ${shape}`, () => {
      assert.equal(downstreamKeyFor(downstream_key, partner, shape), key);
    });
  }
  for (const { name, downstream_key, partner, shape, field } of vectors.refused) {
    test(`refuses ${name}`, () => {
      assert.throws(() => downstreamKeyFor(downstream_key, partner, shape), refusesField(field));
    });
  }
  test("refuses what is no string", () => {
    const key = "6ba7b810-9dad-51d1-80b4-00c04fd430c8";
    const not = undefined as unknown as string;
    assert.throws(() => downstreamKeyFor(not, "a", "uuid"), refusesField("downstream_key"));
    assert.throws(() => downstreamKeyFor(key, not, "uuid"), refusesField("partner"));
    const shape = 16 as unknown as DownstreamKeyShape;
    assert.throws(() => downstreamKeyFor(key, "a", shape), refusesField("shape"));
  });
});

test("an attempt derives from its own downstream key", () => {
  const attempt = fakeAttempt();
  const derived = downstreamKeyFor(attempt.downstreamKey, "bank", "hex32");
  assert.equal(attempt.downstreamKeyFor("bank", "hex32"), derived);
});

test("an unprotected attempt has no key to derive from", () => {
  const attempt = fakeAttempt({ unprotected: true, downstreamKey: "" });
  assert.throws(() => attempt.downstreamKeyFor("bank", "uuid"), refusesField("downstream_key"));
});
