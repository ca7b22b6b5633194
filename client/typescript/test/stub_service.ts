/**
 * A service that answers as a test says, in this process: for what no scenario can bring about, and
 * for the client's own inside. Whatever the scenarios can show is shown there, by the real service.
 */

import { create, toBinary, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import {
  Metadata,
  Server,
  ServerCredentials,
  status as Code,
  type sendUnaryData,
  type ServerUnaryCall,
} from "@grpc/grpc-js";
import { credentials, IdempotencyClient, type ClientOptions, type Rpc } from "@idempotencyd/client";

import {
  ErrorInfoSchema,
  StatusDetailsSchema,
} from "../src/gen/idempotency/client/v1/status_details_pb.js";
import {
  BeginRequestSchema,
  BeginResponseSchema,
  CompleteResponseSchema,
  FailResponseSchema,
  RenewResponseSchema,
  type BeginRequest,
} from "../src/gen/idempotency/v1/idempotency_service_pb.js";
import { fromBinary } from "@bufbuild/protobuf";

export { Code };

export interface Refusal {
  readonly code: Code;
  readonly details?: string;
  readonly reason?: string;
  readonly trailers?: Readonly<Record<string, string | Buffer>>;
}

/** Bytes, a refusal, or nothing: then the call is never answered. */
type Answer = Uint8Array | Refusal | undefined;
type Handler = (request: Buffer, number: number) => Answer | Promise<Answer>;

export class StubService {
  readonly #server = new Server();
  readonly requests: Record<Rpc, Buffer[]> = {
    Begin: [],
    Complete: [],
    Fail: [],
    Renew: [],
    Lookup: [],
  };
  /** What a test may replace. By default all goes well. */
  readonly on: Record<Rpc, Handler> = {
    Begin: (request) => started(fromBinary(BeginRequestSchema, request)),
    Complete: () => message(CompleteResponseSchema, { finishTime: { seconds: 1n } }),
    Fail: () => message(FailResponseSchema, { finishTime: { seconds: 1n } }),
    Renew: () => message(RenewResponseSchema, { leaseRemaining: { seconds: 60n } }),
    Lookup: () => ({ code: Code.UNIMPLEMENTED }),
  };
  #target = "";

  static async start(): Promise<StubService> {
    const service = new StubService();
    const asIs = (bytes: Buffer): Buffer => bytes;
    for (const rpc of ["Begin", "Complete", "Fail", "Renew", "Lookup"] as const) {
      const path = `/idempotency.v1.IdempotencyService/${rpc}`;
      const handler = service.#handle.bind(service, rpc);
      service.#server.register(path, handler, asIs, asIs, "unary");
    }
    const port = await new Promise<number>((resolve, reject) => {
      service.#server.bindAsync(
        "127.0.0.1:0",
        ServerCredentials.createInsecure(),
        (error, bound) => {
          if (error === null) resolve(bound);
          else reject(error);
        },
      );
    });
    service.#target = `127.0.0.1:${String(port)}`;
    return service;
  }

  get target(): string {
    return this.#target;
  }

  client(options: Partial<ClientOptions> = {}): IdempotencyClient {
    return new IdempotencyClient({
      target: this.#target,
      credentials: credentials.createInsecure(),
      ...options,
    });
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  /** Resolves when that many calls have come in. */
  async received(rpc: Rpc, count: number): Promise<void> {
    await eventually(() => this.requests[rpc].length >= count);
  }

  #handle(rpc: Rpc, call: ServerUnaryCall<Buffer, Buffer>, send: sendUnaryData<Buffer>): void {
    const number = this.requests[rpc].push(call.request);
    void Promise.resolve(this.on[rpc](call.request, number)).then((answer) => {
      if (answer === undefined) return;
      if (answer instanceof Uint8Array) send(null, Buffer.from(answer));
      else send({ code: answer.code, details: answer.details ?? "", metadata: trailersOf(answer) });
    });
  }
}

function trailersOf({ code, reason, trailers = {} }: Refusal): Metadata {
  const metadata = new Metadata();
  if (reason !== undefined) metadata.set("grpc-status-details-bin", detailsOf(code, reason));
  for (const [name, value] of Object.entries(trailers)) metadata.set(name, value);
  return metadata;
}

export function detailsOf(code: Code, reason: string, domain = "idempotency.v1"): Buffer {
  const info = message(ErrorInfoSchema, { reason, domain });
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  return Buffer.from(message(StatusDetailsSchema, { code, details }));
}

export function message<S extends DescMessage>(schema: S, init: MessageInitShape<S>): Uint8Array {
  return toBinary(schema, create(schema, init));
}

/** A first attempt, as its Begin asks for. */
export function started(request: BeginRequest, leaseMs = 60_000): Uint8Array {
  return message(BeginResponseSchema, {
    recordId: "6ba7b810-9dad-51d1-80b4-00c04fd430c8",
    onLeaseExpiry: request.onLeaseExpiry,
    result: {
      case: "started",
      value: {
        attemptId: request.attemptId,
        attemptNumber: 1,
        fencingToken: 7n,
        downstreamKey: "6ba7b810-9dad-51d1-80b4-00c04fd430c9",
        leaseRemaining: {
          seconds: BigInt(Math.floor(leaseMs / 1000)),
          nanos: (leaseMs % 1000) * 1e6,
        },
      },
    },
  });
}

/** Looks until it is so. The test's own time-out ends it. */
export async function eventually(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5));
}
