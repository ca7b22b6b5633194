/** That a process lives as long as there is something to record, and no longer. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { text } from "node:stream/consumers";

import { Code, message, StubService } from "./stub_service.js";
import { CompleteResponseSchema } from "../src/gen/idempotency/v1/idempotency_service_pb.js";

const KEY_AND_REQUEST = `
  const key = { merchantId: "acme", idempotencyKey: "k" };
  const request = { operation: "o", payload: { data: "" } };
`;

const SLOW_WORK = `
  import { credentials, IdempotencyClient, WorkResult } from "@idempotencyd/client";
  const client = new IdempotencyClient({
    target: process.argv[1],
    credentials: credentials.createInsecure(),
  });
  const work = async () => {
    // Nothing that keeps a process alive.
    await new Promise((resolve) => setTimeout(resolve, 300).unref());
    return WorkResult.completed({ statusCode: 201 });
  };
  ${KEY_AND_REQUEST}
  client.runOnce(key, request, "TAKE_OVER", work).then(({ kind }) => console.log(kind));
`;

const ENDLESS_WORK = `
  import { credentials, IdempotencyClient } from "@idempotencyd/client";
  const client = new IdempotencyClient({
    target: process.argv[1],
    credentials: credentials.createInsecure(),
    shutdownTimeoutMs: 50,
  });
  const work = (attempt) => {
    attempt.signal.addEventListener("abort", () => console.log("asked"));
    client.close();
    return new Promise(() => undefined);
  };
  ${KEY_AND_REQUEST}
  client.runOnce(key, request, "TAKE_OVER", work);
`;

// What it wrote, when it has ended by itself, well.
async function outputOf(program: string, target: string): Promise<string> {
  const args = ["--input-type=module", "-e", program, target];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [output] = await Promise.all([text(child.stdout), once(child, "exit")]);
  assert.equal(child.exitCode, 0);
  return output;
}

test("a process ends when its work is recorded, though nothing else keeps it", async () => {
  const service = await StubService.start();
  service.on.Complete = (_, number) =>
    number < 4
      ? { code: Code.UNAVAILABLE }
      : message(CompleteResponseSchema, { finishTime: { seconds: 1n } });
  assert.equal(await outputOf(SLOW_WORK, service.target), "Completed\n");
  assert.equal(service.requests.Complete.length, 4);
  service.stop();
});

test("a process ends when its client is closed, though its work does not", async () => {
  const service = await StubService.start();
  assert.equal(await outputOf(ENDLESS_WORK, service.target), "asked\n");
  service.stop();
});
