/** The example as a user runs it: a program by itself, against a real service. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { HOST, serviceTarget } from "./scenario_host.js";

const skip = HOST === undefined ? "IDEMPOTENCY_SCENARIO_HOST is not set" : false;
const EXAMPLE = fileURLToPath(new URL("../example/payment.js", import.meta.url));

test("the example moves the money once, and shows the unknown outcome", { skip }, async () => {
  const target = await serviceTarget(HOST ?? "");
  // Rejects unless it exits with 0.
  const { stdout } = await promisify(execFile)(process.execPath, [EXAMPLE, target]);
  const lines = stdout.trimEnd().split("\n");
  assert.match(lines[0] ?? "", /^call 1: 502 .*OUTCOME_UNKNOWN/);
  assert.equal(lines[1], 'call 2: 201 {"transfer":"tr-1"}');
  assert.equal(lines[2], 'call 3: 201 (replayed) {"transfer":"tr-1"}');
  assert.equal(lines[3], "money moved: 50");
});
