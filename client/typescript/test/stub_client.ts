/** A client of a stub service, anew for each test. */

import assert from "node:assert/strict";
import { afterEach, beforeEach } from "node:test";

import {
  IdempotencyError,
  WorkResult,
  type ClientOptions,
  type IdempotencyClient,
  type Key,
  type Request,
  type RunOptions,
  type RunResult,
  type Work,
} from "@idempotencyd/client";

import { StubService } from "./stub_service.js";

export const KEY: Key = { merchantId: "acme", idempotencyKey: "k" };
export const REQUEST: Request = { operation: "POST /payments", payload: { data: "{}" } };
export const DONE = WorkResult.completed({ statusCode: 201, body: "paid" });

/** Made by {@link useStub}; `service` and `client` are those of the present test. */
export class Stub {
  #service: StubService | undefined;
  readonly #clients: IdempotencyClient[] = [];
  client!: IdempotencyClient;

  get service(): StubService {
    assert.ok(this.#service);
    return this.#service;
  }

  async start(): Promise<void> {
    this.#service = await StubService.start();
    this.reconnect({});
  }

  /** Another client, with these options. */
  reconnect(options: Partial<ClientOptions>): void {
    this.client = this.service.client({ shutdownTimeoutMs: 0, ...options });
    this.#clients.push(this.client);
  }

  async stop(): Promise<void> {
    for (const client of this.#clients.splice(0)) await client.close();
    this.service.stop();
  }

  runOnce(fn: Work, options: RunOptions = {}): Promise<RunResult> {
    return this.client.runOnce(KEY, REQUEST, "TAKE_OVER", fn, options);
  }
}

export function useStub(): Stub {
  const stub = new Stub();
  beforeEach(() => stub.start());
  afterEach(() => stub.stop());
  return stub;
}

/** What the call rejected with. */
export async function errorOf(running: Promise<unknown>): Promise<IdempotencyError> {
  try {
    await running;
  } catch (error) {
    assert.ok(error instanceof IdempotencyError, String(error));
    return error as IdempotencyError;
  }
  throw new Error("the call did not reject");
}
