/**
 * A tiny payment service with a partner that takes the money and then does not answer.
 *
 *     ./dev run                                      # the service, in another terminal
 *     node .build/example/payment.js 127.0.0.1:50051
 *
 * POSTs one order three times, as a client that lost the answer would. The partner's first answer is
 * lost after it took the money. What happens:
 *
 *     call 1   502: the partner's time-out says nothing about the money, so the attempt ends unknown
 *     call 2   201: is told that an attempt ended unknown, asks the partner by the downstream key,
 *              learns that the money moved, and records that: no second transfer
 *     call 3   201: the recorded answer, byte for byte, without touching the partner
 *
 * Exits with 0 if the money moved once.
 */

import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";

import {
  credentials,
  httpAnswer,
  IdempotencyClient,
  randomRequestId,
  WorkResult,
  type Attempt,
  type Runner,
} from "@idempotencyd/client";

/** The bank at the other end. It remembers transfers by the key that comes with them. */
class Partner {
  readonly #transfers = new Map<string, string>();
  moved = 0;

  /** Takes the money, once for each downstream key. Rejects when no answer comes back. */
  async transfer(downstreamKey: string, amount: number): Promise<string> {
    const known = await this.find(downstreamKey);
    if (known !== undefined) return known;
    this.moved += amount;
    const id = `tr-${String(this.#transfers.size + 1)}`;
    this.#transfers.set(downstreamKey, id);
    if (this.#transfers.size === 1) {
      throw new DOMException("the partner did not answer in time", "TimeoutError");
    }
    return id;
  }

  /** The transfer with that key, if it is known. */
  find(downstreamKey: string): Promise<string | undefined> {
    return Promise.resolve(this.#transfers.get(downstreamKey));
  }
}

function paid(transfer: string): WorkResult {
  return WorkResult.completed({
    statusCode: 201,
    contentType: "application/json",
    body: JSON.stringify({ transfer }),
    responseId: transfer,
  });
}

/** POST /payments with an Idempotency-Key. */
function paymentHandler(runner: Runner, partner: Partner): RequestListener {
  const work = async (attempt: Attempt): Promise<WorkResult> => {
    if (attempt.unknownAttempts > 0) {
      const transfer = await partner.find(attempt.downstreamKey);
      if (transfer !== undefined) return paid(transfer);
    }
    // Whatever this rejects with is recorded as unknown.
    return paid(await partner.transfer(attempt.downstreamKey, 50));
  };
  const pay = async (request: IncomingMessage) => {
    const data = await bodyOf(request);
    const idempotencyKey = String(request.headers["idempotency-key"] ?? "");
    const contentType = request.headers["content-type"];
    return runner.runOnce(
      { merchantId: "shop-1", idempotencyKey },
      { operation: "POST /payments", payload: { data, contentType } },
      "TAKE_OVER",
      work,
      { signal: AbortSignal.timeout(10_000) },
    );
  };
  return (request, response) => {
    pay(request)
      .then(httpAnswer, httpAnswer)
      .then(({ status, headers, body }) => {
        response.writeHead(status, headers.flat()).end(body);
      })
      .catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function main(target: string): Promise<number> {
  const client = new IdempotencyClient({ target, credentials: credentials.createInsecure() });
  const partner = new Partner();
  const server = createServer(paymentHandler(client, partner));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/payments`;

  const idempotencyKey = randomRequestId();
  const statuses: number[] = [];
  for (let call = 1; call <= 3; call++) {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey },
      body: '{"amount":50}',
    });
    statuses.push(answer.status);
    const replayed = answer.headers.has("Idempotent-Replayed") ? " (replayed)" : "";
    console.log(`call ${String(call)}: ${String(answer.status)}${replayed} ${await answer.text()}`);
  }
  console.log(`money moved: ${String(partner.moved)}`);
  server.close();
  server.closeAllConnections();
  await client.close();
  return partner.moved === 50 && statuses.join() === "502,201,201" ? 0 : 1;
}

const target = process.argv[2];
if (target === undefined) {
  console.error("Usage: node payment.js HOST:PORT");
  process.exitCode = 2;
} else {
  process.exitCode = await main(target);
}
