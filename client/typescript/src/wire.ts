/** One channel to the service: single tries of calls, and what is known of its connections. */

import { fromBinary, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import {
  Channel,
  Client,
  connectivityState as State,
  Metadata,
  status as Code,
  type ChannelCredentials,
  type ChannelOptions,
  type ServiceError,
} from "@grpc/grpc-js";

import { CallFailure } from "./call_failure.js";
import type { Caller } from "./caller.js";
import { until } from "./clock.js";

// The server cuts clients off that ping more often (kShortestPingInterval in server/rpc).
const SHORTEST_KEEPALIVE_MS = 10_000;
// How soon a replica that restarts is tried again.
const FIRST_RECONNECT_MS = 200;
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

export interface WireOptions {
  readonly target: string;
  readonly credentials: ChannelCredentials;
  readonly channelOptions: ChannelOptions;
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly maxReconnectBackoffMs: number;
}

/** What this library depends on goes before what the program asks of gRPC. */
export function channelOptionsOf(options: WireOptions): ChannelOptions {
  return {
    ...options.channelOptions,
    "grpc.keepalive_time_ms": Math.max(options.keepaliveIntervalMs, SHORTEST_KEEPALIVE_MS),
    "grpc.keepalive_timeout_ms": options.keepaliveTimeoutMs,
    // An idle connection that a firewall forgot is found out before the next payment needs it.
    "grpc.keepalive_permit_without_calls": 1,
    // This library repeats calls itself, because it knows which may be repeated how. With 0 there
    // are no transparent retries either: a second Begin is always seen here.
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.service_config": '{"loadBalancingConfig": [{"round_robin": {}}]}',
    "grpc.initial_reconnect_backoff_ms": Math.min(
      FIRST_RECONNECT_MS,
      options.maxReconnectBackoffMs,
    ),
    "grpc.max_reconnect_backoff_ms": options.maxReconnectBackoffMs,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    // Otherwise channels with equal options share their connections.
    "grpc.use_local_subchannel_pool": 1,
  };
}

export type Rpc = "Begin" | "Complete" | "Fail" | "Renew" | "Lookup";

/** A try of a call whose answers are messages of `schema`. */
export interface Try<S extends DescMessage> {
  readonly rpc: Rpc;
  readonly schema: S;
  /** Serialised once, so that every repeat has the same bytes. */
  readonly request: Buffer;
  /** Whether an answer has what every answer has. */
  readonly isWhole: (answer: MessageShape<S>) => boolean;
}

export class Wire {
  readonly #channel: Channel;
  readonly #client: Client;
  #state: State;
  // Grows with every change of the state, so that one that came and went is noticed.
  #changes = 0;
  #waiters = new Set<() => void>();

  /** Connects lazily: a service that is away is found out by the first call. */
  constructor(options: WireOptions) {
    const { target, credentials } = options;
    this.#channel = new Channel(target, credentials, channelOptionsOf(options));
    this.#client = new Client(target, credentials, { channelOverride: this.#channel });
    this.#state = this.#channel.getConnectivityState(false);
    this.#watch();
  }

  close(): void {
    this.#client.close();
  }

  /**
   * Says that there is no connection now, by a number that is the same as before only if there was
   * none in between either. Undefined: there is, or may be, one.
   */
  get downSince(): number | undefined {
    return this.#state === State.TRANSIENT_FAILURE ? this.#changes : undefined;
  }

  /** Resolves when it is known whether there is a connection, at that time, or with the caller. */
  async settle(giveUpAt: number, caller: Caller): Promise<void> {
    while (until(giveUpAt) > 0 && caller.whyGone === undefined) {
      const state = this.#channel.getConnectivityState(true);
      if (state === State.READY || state === State.TRANSIENT_FAILURE || state === State.SHUTDOWN) {
        return;
      }
      await this.#change(until(giveUpAt), caller);
    }
  }

  /** Fails as INTERNAL if the answer is none that can be read. */
  async call<S extends DescMessage>(
    one: Try<S>,
    timeoutMs: number,
    caller: Caller,
  ): Promise<MessageShape<S> | CallFailure> {
    const bytes = await this.#send(one.rpc, one.request, timeoutMs, caller);
    if (bytes instanceof CallFailure) return bytes;
    try {
      const answer = fromBinary(one.schema, bytes);
      if (one.isWhole(answer)) return answer;
    } catch {
      // As one that lacks what it must have.
    }
    return new CallFailure(Code.INTERNAL, "the service's answer is none that this client can read");
  }

  #send(
    rpc: Rpc,
    request: Buffer,
    timeoutMs: number,
    caller: Caller,
  ): Promise<Buffer | CallFailure> {
    return new Promise((resolve) => {
      let stop = (): void => undefined;
      const onEnd = (error: ServiceError | null, bytes?: Buffer): void => {
        stop();
        resolve(bytes ?? failureOf(error));
      };
      try {
        const call = this.#client.makeUnaryRequest(
          `/idempotency.v1.IdempotencyService/${rpc}`,
          asIs,
          asIs,
          request,
          new Metadata(),
          { deadline: Date.now() + timeoutMs },
          onEnd,
        );
        stop = caller.onGone(() => {
          call.cancel();
        });
      } catch {
        // A channel that was closed throws. Nothing was sent.
        resolve(new CallFailure(Code.UNAVAILABLE, "the client is closed"));
      }
    });
  }

  #watch(): void {
    this.#channel.watchConnectivityState(this.#state, Infinity, () => {
      this.#state = this.#channel.getConnectivityState(false);
      this.#changes += 1;
      const waiters = this.#waiters;
      this.#waiters = new Set();
      for (const waiter of waiters) waiter();
      if (this.#state !== State.SHUTDOWN) this.#watch();
    });
  }

  async #change(spanMs: number, caller: Caller): Promise<void> {
    const { promise, resolve } = gate();
    this.#waiters.add(resolve);
    const nap = caller.nap(spanMs);
    await Promise.race([promise, nap.ended]);
    nap.end();
    this.#waiters.delete(resolve);
  }
}

function gate(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}

function failureOf(error: ServiceError | null): CallFailure {
  if (error === null) return new CallFailure(Code.INTERNAL, "the service did not answer");
  return new CallFailure(error.code, error.details, error.metadata);
}
