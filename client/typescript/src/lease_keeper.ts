/**
 * Keeps an attempt's lease while `fn` runs, and asks `fn` to stop when it must.
 *
 * Renew goes out a third of the lease after the last accepted Begin or Renew was sent. A Renew that
 * fails is repeated until one is accepted or refused for good, also after the lease's local end: `fn`
 * is told to stop by then, but as long as it has not stopped it is better that nobody else starts.
 * After one that must not be repeated the next goes out a third of the lease later.
 * It ends with `maxDurationMs`, so that a hanging `fn` does not hold the key for ever.
 *
 * The timers keep the process alive: it must not end in the middle of a payment because nothing else
 * is to be done at the moment.
 */

import { status as Code } from "@grpc/grpc-js";

import { Backoff } from "./backoff.js";
import { CallFailure } from "./call_failure.js";
import { Caller } from "./caller.js";
import { elapsedMs, now, startTimer, type Instant } from "./clock.js";
import { msOf } from "./convert.js";
import { callHook, type Core } from "./core.js";
import type {
  RenewResponse,
  RenewResponseSchema,
} from "./gen/idempotency/v1/idempotency_service_pb.js";
import { StopRequest, type StopReason } from "./runner.js";
import type { Try } from "./wire.js";

/** What an accepted Begin or Renew gave. */
export interface Lease {
  readonly sentAt: Instant;
  readonly durationMs: number;
}

/** Never negative. */
export function leftOf(lease: Lease): number {
  return Math.max(lease.durationMs - elapsedMs(lease.sentAt), 0);
}

// A lease that has nearly no time left is not renewed in a busy loop.
const SHORTEST_THIRD_MS = 20;
const SHORTEST_TRY_MS = 200;
const LONGEST_BACKOFF_MS = 1_000;
// A suspended machine's timers stand still; so the clocks are looked at this often.
const LONGEST_SLEEP_MS = 1_000;

export class LeaseKeeper {
  readonly #controller = new AbortController();
  readonly #startedAt = now();
  readonly #renewCaller = new Caller();
  readonly #backoff = new Backoff(LONGEST_BACKOFF_MS);
  #lease: Lease;
  // The next Renew goes out when #renewFrom is that long ago.
  #renewFrom: Instant;
  #renewAfterMs: number;
  #hasRefreshed = false;
  #isRenewing = false;
  #isOver = false; // no Renew any more
  #hasEnded = false;
  #stopReason: StopReason = "none";
  #timer: NodeJS.Timeout | undefined;

  /** Without a `renewal` there is no lease: the work is unprotected, and has only its duration. */
  constructor(
    private readonly core: Core,
    private readonly renewal: Try<typeof RenewResponseSchema> | undefined,
    lease: Lease,
    private readonly maxDurationMs: number,
  ) {
    this.#lease = lease;
    this.#renewFrom = lease.sentAt;
    this.#renewAfterMs = this.#third;
    this.#isOver = renewal === undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get stopReason(): StopReason {
    return this.#stopReason;
  }

  leaseRemainingMs(): number {
    return leftOf(this.#lease);
  }

  start(): void {
    this.#schedule();
  }

  /** No Renew is sent any more, one that is under way is cancelled, nothing is asked to stop. */
  end(): void {
    this.#hasEnded = true;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#renewCaller.leave("cancelled");
  }

  /** Asks to stop, for the first reason only. */
  stop(reason: StopReason): void {
    if (this.#hasEnded || this.#stopReason !== "none") return;
    this.#stopReason = reason;
    this.#controller.abort(new StopRequest(reason));
  }

  get #third(): number {
    return Math.max(this.#lease.durationMs / 3, SHORTEST_THIRD_MS);
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    // A client that was closed keeps nothing alive any more, and can renew nothing.
    if (this.#hasEnded || this.core.hasGivenUp) return;
    const spans = [LONGEST_SLEEP_MS, this.maxDurationMs - elapsedMs(this.#startedAt)];
    if (this.#stopReason === "none") spans.push(leftOf(this.#lease));
    if (this.#mayRenew) spans.push(this.#renewAfterMs - elapsedMs(this.#renewFrom));
    this.#timer = startTimer(this.#onTimer, Math.max(Math.min(...spans), 1));
  }

  get #mayRenew(): boolean {
    return !this.#isOver && !this.#isRenewing;
  }

  readonly #onTimer = (): void => {
    if (elapsedMs(this.#startedAt) >= this.maxDurationMs) {
      this.#isOver = true;
      this.stop("max_duration");
      return; // Nothing is left to wait for.
    }
    if (leftOf(this.#lease) === 0) this.stop("lease_lost");
    if (this.#mayRenew && elapsedMs(this.#renewFrom) >= this.#renewAfterMs) void this.#renew();
    this.#schedule();
  };

  async #renew(): Promise<void> {
    if (this.renewal === undefined) return;
    this.#isRenewing = true;
    const sentAt = now();
    // A try that hangs leaves time for another one.
    const timeoutMs = Math.max(
      Math.min(this.#third, this.core.options.rpcTimeoutMs),
      SHORTEST_TRY_MS,
    );
    const answer = await this.core.calls.call(this.renewal, timeoutMs, this.#renewCaller);
    if (this.#hasEnded) return;
    if (answer instanceof CallFailure) await this.#onFailure(answer);
    else this.#onAccepted(sentAt, answer);
    this.#isRenewing = false;
    this.#schedule();
  }

  #onAccepted(sentAt: Instant, answer: RenewResponse): void {
    this.#lease = { sentAt, durationMs: msOf(answer.leaseRemaining) };
    this.#renewFrom = sentAt;
    this.#renewAfterMs = this.#third;
    this.#backoff.reset();
    this.#hasRefreshed = false;
  }

  async #onFailure(failure: CallFailure): Promise<void> {
    if (failure.kind === "LeaseLost" || failure.kind === "RecordNotFound") {
      this.#isOver = true;
      this.stop("lease_lost");
      return;
    }
    // NEEDS_RESOLUTION: the takeover window leaves no lease. The one that is held runs to its end.
    if (failure.kind === "NeedsResolution" || failure.kind === "InvalidField") this.#isOver = true;
    else void callHook(this.core.options.hooks.onRetry, "Renew", failure.toError());
    if (failure.mustNotRetry) {
      this.#renewFrom = now();
      this.#renewAfterMs = this.#third;
      return;
    }
    const refresh = failure.code === Code.UNAUTHENTICATED && !this.#hasRefreshed;
    if (refresh) {
      this.#hasRefreshed = true;
      await this.core.refreshCredentials(this.#renewCaller);
    }
    this.#renewFrom = now();
    this.#renewAfterMs = refresh ? 0 : this.#backoff.next(failure.retryAfterMs);
  }
}
