/**
 * The client of the idempotency service: a {@link Runner} over gRPC.
 *
 * What it sees to, so that callers cannot get it wrong:
 * - An attempt has an id from the system's random source, kept over all tries of the same call, so
 *   that a lost answer is safe to repeat.
 * - Fail closed: without a `started` from the service `fn` does not run.
 * - The lease is renewed at a third of it; `fn` is asked to stop when it is lost, or its local
 *   deadline passes (counted from when the last accepted call was *sent*).
 * - What `fn` came to is recorded whether or not the caller still waits, with identical bytes, and
 *   repeated until it is known to be recorded or refused.
 * - Everything that is not known is recorded as unknown.
 * - A caller that gives up before `fn` ran releases the key (Fail NOT_APPLIED).
 */

import { create, toBinary } from "@bufbuild/protobuf";
import { ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";

import { checkCall, checkLookup, DEFAULT_START_TIMEOUT_MS } from "./call.js";
import { CallFailure } from "./call_failure.js";
import { goneError } from "./caller.js";
import { Check } from "./check.js";
import { after } from "./clock.js";
import { recordOf } from "./convert.js";
import { Core, repeat, type Hooks } from "./core.js";
import { makeError } from "./errors.js";
import {
  LookupRequestSchema,
  LookupResponseSchema,
} from "./gen/idempotency/v1/idempotency_service_pb.js";
import type { IdempotencyRecord, RunResult } from "./result.js";
import { Run } from "./run.js";
import type { LookupOptions, Runner, RunOptions, Work } from "./runner.js";
import type { Key, OnLeaseExpiry, Request } from "./types.js";
import { Wire } from "./wire.js";

/** Spans are milliseconds. */
export interface ClientOptions {
  /** A gRPC name: `dns:///idempotency.payments.svc:50051`. Without a scheme it is a DNS name, too. */
  readonly target: string;
  /**
   * `credentials.createSsl(…)` of @grpc/grpc-js, combined with call credentials where the service
   * asks for a token; `credentials.createInsecure()` only on a network that is trusted.
   */
  readonly credentials: ChannelCredentials;
  /** Bound of one try of a call; waits come on top. More than 0; 5 s by default. */
  readonly rpcTimeoutMs?: number | undefined;
  /** How long Complete and Fail are repeated. 5 min by default. */
  readonly recordTimeoutMs?: number | undefined;
  /** How long `close` waits for calls, and for records made in the background. 10 s by default. */
  readonly shutdownTimeoutMs?: number | undefined;
  /**
   * Records in the background. Past it a caller that gives up before `fn` ran leaves its key to its
   * lease; what `fn` came to is recorded however many there are. 10,000 by default.
   */
  readonly maxBackgroundRecords?: number | undefined;
  /**
   * Between two keepalive pings, 20 s by default. The server cuts clients off that ping more often
   * than every 10 s; less is raised to that.
   */
  readonly keepaliveIntervalMs?: number | undefined;
  /** How long a ping may go unanswered before the connection counts as dead. 10 s by default. */
  readonly keepaliveTimeoutMs?: number | undefined;
  /** The longest pause between two tries to connect. More than 0; 5 s by default. */
  readonly maxReconnectBackoffMs?: number | undefined;
  readonly hooks?: Hooks | undefined;
  /**
   * gRPC's own, for what is not named here, such as `grpc.ssl_target_name_override`. What this
   * library depends on (retries, keepalive, balancing, sizes) stays as it is.
   */
  readonly channelOptions?: ChannelOptions | undefined;
}

const OPTIONS = [
  "target",
  "credentials",
  "rpcTimeoutMs",
  "recordTimeoutMs",
  "shutdownTimeoutMs",
  "maxBackgroundRecords",
  "keepaliveIntervalMs",
  "keepaliveTimeoutMs",
  "maxReconnectBackoffMs",
  "hooks",
  "channelOptions",
];
const HOOKS = ["onOutcomeNotRecorded", "onRetry", "onUnprotected", "refreshCredentials"];
// What a timer of Node's can hold.
const LONGEST_GRPC_SPAN_MS = 2 ** 31 - 1;

/** One for the process; any number of calls at a time. */
export class IdempotencyClient implements Runner, AsyncDisposable {
  readonly #core: Core;
  readonly #shutdownTimeoutMs: number;
  #closed: Promise<void> | undefined;

  /**
   * Connects lazily: a service that is away is found out by the first call.
   *
   * @throws InvalidFieldError naming the option
   */
  constructor(options: ClientOptions) {
    const checked = checkOptions(options);
    const { core, wire } = checked;
    this.#shutdownTimeoutMs = checked.shutdownTimeoutMs;
    try {
      this.#core = new Core(core, new Wire(wire), new Wire(wire));
    } catch (error) {
      // A target that no resolver knows. gRPC's words name it.
      const words = error instanceof Error ? error.message : "is refused by gRPC";
      throw makeError("InvalidField", {
        message: `target: ${words}`,
        violations: [{ field: "target", description: words }],
      });
    }
  }

  /** How many times `fn` ran without the service, as `RUN_UNPROTECTED` allows. */
  get unprotectedRuns(): number {
    return this.#core.unprotectedRuns;
  }

  async runOnce(
    key: Key,
    request: Request,
    onLeaseExpiry: OnLeaseExpiry,
    fn: Work,
    options: RunOptions = {},
  ): Promise<RunResult> {
    const call = checkCall(key, request, onLeaseExpiry, fn, options);
    this.#throwIfClosed();
    return this.#core.withCaller(call.signal, (caller) =>
      new Run(this.#core, call, caller).execute(),
    );
  }

  async lookup(key: Key, options: LookupOptions = {}): Promise<IdempotencyRecord> {
    const { key: checkedKey, includeBody, signal } = checkLookup(key, options);
    this.#throwIfClosed();
    const request = create(LookupRequestSchema, {
      merchantId: checkedKey.merchantId,
      idempotencyKey: checkedKey.idempotencyKey,
      includeOutcome: includeBody,
    });
    const one = {
      rpc: "Lookup" as const,
      schema: LookupResponseSchema,
      request: Buffer.from(toBinary(LookupRequestSchema, request)),
      isWhole: ({ recordId }: { recordId: string }) => recordId !== "",
    };
    const plan = {
      wire: this.#core.calls,
      nextTry: () => one,
      giveUpAt: after(DEFAULT_START_TIMEOUT_MS),
    };
    return this.#core.withCaller(signal, async (caller) => {
      const traces = { mayHaveEffect: false, wasReached: false }; // it only reads
      const answer = await repeat(this.#core, caller, plan, traces);
      if (!(answer instanceof CallFailure)) return recordOf(answer);
      throw caller.whyGone === undefined ? answer.toError() : goneError(caller.whyGone);
    });
  }

  /**
   * Takes no new calls and starts no `fn` any more (`Unavailable`). Work that runs is asked to stop
   * at once; its lease is renewed, and it and what is recorded in the background is waited for, up to
   * `shutdownTimeoutMs`. Then it gives up: what is not recorded is told to `onOutcomeNotRecorded`.
   */
  close(): Promise<void> {
    this.#closed ??= this.#core.close(this.#shutdownTimeoutMs);
    return this.#closed;
  }

  /** As {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #throwIfClosed(): void {
    if (this.#core.isClosed) throw goneError("closed");
  }
}

function checkOptions(options: ClientOptions) {
  const check = new Check();
  if (!check.object("options", options, OPTIONS)) throw check.error() ?? new TypeError();
  const {
    target,
    credentials,
    rpcTimeoutMs = 5_000,
    recordTimeoutMs = 300_000,
    shutdownTimeoutMs = 10_000,
    maxBackgroundRecords = 10_000,
    keepaliveIntervalMs = 20_000,
    keepaliveTimeoutMs = 10_000,
    maxReconnectBackoffMs = 5_000,
    hooks = {},
    channelOptions = {},
  } = options;
  if (check.text("target", target) === "" && target === "")
    check.add("target", "must not be empty");
  if (!(credentials instanceof ChannelCredentials)) {
    check.add("credentials", "must be ChannelCredentials of @grpc/grpc-js");
  }
  check.object("channel_options", channelOptions);
  if (check.object("hooks", hooks, HOOKS)) {
    for (const [name, hook] of Object.entries(hooks)) check.optionalFunction(name, hook);
  }
  if (!Number.isInteger(maxBackgroundRecords) || maxBackgroundRecords < 0) {
    check.add("max_background_records", "must be an integer, 0 or more");
  }
  const grpcSpan = (field: string, value: number): number =>
    Math.min(check.spanMs(field, value, 1), LONGEST_GRPC_SPAN_MS);
  const checked = {
    core: {
      rpcTimeoutMs: grpcSpan("rpc_timeout", rpcTimeoutMs),
      recordTimeoutMs: check.spanMs("record_timeout", recordTimeoutMs, 0),
      maxBackgroundRecords,
      hooks: { ...hooks },
    },
    wire: {
      target,
      credentials,
      channelOptions,
      keepaliveIntervalMs: grpcSpan("keepalive_interval", keepaliveIntervalMs),
      keepaliveTimeoutMs: grpcSpan("keepalive_timeout", keepaliveTimeoutMs),
      maxReconnectBackoffMs: grpcSpan("max_reconnect_backoff", maxReconnectBackoffMs),
    },
    shutdownTimeoutMs: check.spanMs("shutdown_timeout", shutdownTimeoutMs, 0),
  };
  check.end();
  return checked;
}
