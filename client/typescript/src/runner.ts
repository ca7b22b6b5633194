/**
 * `runOnce`: do a piece of work once, however often it is asked for.
 *
 * ```ts
 * const result = await runner.runOnce(
 *   { merchantId, idempotencyKey },
 *   { operation: "POST /payments", payload: { data: body, contentType: "application/json" } },
 *   "TAKE_OVER",
 *   async (attempt) => {
 *     // The downstream key is the same for every attempt: the partner pays once.
 *     const answer = await partner.pay(attempt.downstreamKey, order);
 *     if (answer.refused) return WorkResult.finalFailure("DECLINED", answer.words);
 *     return WorkResult.completed({ statusCode: 201, body: answer.body, responseId: answer.id });
 *   },
 * );
 * ```
 *
 * `Runner` is the interface that application code is written against. `IdempotencyClient` talks to
 * the service; `FakeRunner` (in `@idempotencyd/client/testing`) lives in memory, for tests.
 */

import type { DownstreamKeyShape } from "./downstream_key.js";
import type { IdempotencyRecord, RunResult } from "./result.js";
import type {
  FailureDisposition,
  Key,
  OnLeaseExpiry,
  PreviousAttempt,
  Request,
  WorkResult,
} from "./types.js";

/**
 * Why `fn` is asked to stop.
 *
 * - `none`: it is not.
 * - `lease_lost`: the lease is lost, or could not be renewed in time: somebody else may start.
 * - `max_duration`: `RunOptions.maxDurationMs` is over.
 * - `cancelled`: the caller's signal aborted, or the client was closed.
 * - `deadline`: the caller's signal aborted with a `TimeoutError`, as `AbortSignal.timeout` does.
 */
export type StopReason = "none" | "lease_lost" | "max_duration" | "cancelled" | "deadline";

/** The reason that `Attempt.signal` aborts with. */
export class StopRequest extends Error {
  override readonly name = "StopRequest";
  constructor(readonly stopReason: StopReason) {
    super(`the work is asked to stop: ${stopReason}`);
  }
}

/** The right to do the work, as `fn` gets it. */
export interface Attempt {
  readonly recordId: string;
  /** 1 for the first attempt of the record; 0 if unprotected. */
  readonly attemptNumber: number;
  /**
   * Greater than every one granted for this key before. Hand it to systems that can refuse an older
   * one. 0 if unprotected.
   */
  readonly fencingToken: bigint;
  /**
   * A UUID, the same for all attempts of this record. Send it to the partner as its idempotency
   * key. Empty if unprotected.
   */
  readonly downstreamKey: string;
  /** How many attempts ended without a known result. Above 0: ask the partner before paying. */
  readonly unknownAttempts: number;
  readonly previousAttempt: PreviousAttempt | undefined;
  /**
   * The service had started this attempt before; its answer was lost and asked for again. `fn` did
   * not run then: this client never runs it twice under one attempt.
   */
  readonly repeated: boolean;
  /** True: the service was not reached and nothing is recorded, as `RUN_UNPROTECTED` allows. */
  readonly unprotected: boolean;
  /** The record's value in force. */
  readonly onLeaseExpiry: OnLeaseExpiry;

  /**
   * Aborts, with a {@link StopRequest}, when the lease is lost, `maxDurationMs` is over, or the
   * caller has left. Begin nothing new from then on; what has been sent to a partner has been sent,
   * and is unknown unless the partner says otherwise. An event loop that is blocked hears of it when
   * it is free again; `leaseRemainingMs()` tells the truth at any time.
   */
  readonly signal: AbortSignal;
  /** Why `signal` aborted. */
  readonly stopReason: StopReason;
  /**
   * How much of the lease is left, in milliseconds; never negative, `Infinity` if unprotected. Reads
   * the clocks itself: ask right before the step that cannot be undone.
   */
  leaseRemainingMs(): number;
  /**
   * A key for one of several partners; see {@link downstreamKeyFor}.
   *
   * @throws InvalidFieldError naming `partner` or `shape`, or `downstream_key` if unprotected
   */
  downstreamKeyFor(partner: string, shape: DownstreamKeyShape): string;
}

/**
 * The work, synchronous or not. Whatever it throws or rejects with is unknown, unless
 * `RunOptions.classify` knows better; so is a value that is no {@link WorkResult}.
 */
export type Work = (attempt: Attempt) => WorkResult | Promise<WorkResult>;

/** Spans are milliseconds, at most 10,000 years; parts of one are rounded up. */
export interface RunOptions {
  /**
   * How long the record answers, from its first Begin: 1 min to 30 days, by default the key's, else
   * 24 h. The first call's counts.
   */
  readonly ttlMs?: number | undefined;
  /**
   * How long a crashed attempt keeps others out: 1 s to 1 h, 60 s by default. Renewed at a third of
   * it while `fn` runs, so it need not be as long as the work; but longer than the event loop is
   * ever blocked.
   */
  readonly leaseDurationMs?: number | undefined;
  /**
   * If somebody else is at it: how long to wait for their outcome before answering `InProgress`.
   * 0, the default: not at all.
   */
  readonly waitTimeoutMs?: number | undefined;
  /**
   * Words for people, such as the order number: at most 16, names 1 to 32 and values up to 128
   * bytes. Shown by Lookup, never compared. Default none.
   */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /**
   * How long `fn` may run. Then it is asked to stop, and the lease is no longer renewed. More than
   * 0; 15 min by default.
   */
  readonly maxDurationMs?: number | undefined;
  /**
   * How long the service is asked, over all tries, before this gives up without running `fn`;
   * `waitTimeoutMs` comes on top. More than 0; 30 s by default.
   */
  readonly startTimeoutMs?: number | undefined;
  /**
   * `FAIL`, the default: a service that cannot be reached means no work. `RUN_UNPROTECTED`: when
   * `startTimeoutMs` is over and every try was certainly without effect, `fn` runs without the
   * service. Then nothing is recorded and another call may do the same work. Refused with `HOLD`.
   */
  readonly onUnavailable?: "FAIL" | "RUN_UNPROTECTED" | undefined;
  /**
   * What an error of `fn` says about the work; the default: nothing, so `unknown`. `not_applied` only
   * for what proves that nothing happened. One that throws, or gives another value, says `unknown`.
   */
  readonly classify?: ((error: unknown) => FailureDisposition) | undefined;
  /**
   * The caller's cancellation, or its end of patience (`AbortSignal.timeout`, or any signal whose
   * reason is named `TimeoutError`). Before `fn`: it will not run. In `fn`: it is asked to stop.
   * After it: what it came to is recorded all the same; when that takes longer than a second, the
   * call rejects with `OutcomeNotRecorded` and `stillRecording`.
   */
  readonly signal?: AbortSignal | undefined;
}

export interface LookupOptions {
  /** The outcome's body, too. Default false. */
  readonly includeBody?: boolean | undefined;
  /** The caller's cancellation or end of patience. */
  readonly signal?: AbortSignal | undefined;
}

export interface Runner {
  /**
   * Runs `fn` if the work of `key` is this caller's to do, and resolves to what is recorded. `fn`
   * runs at most once, and not at all when the service cannot be reached. What `fn` throws is in the
   * result.
   *
   * @throws IdempotencyError as a rejection; its `work` is there exactly when `fn` ran
   */
  runOnce(
    key: Key,
    request: Request,
    onLeaseExpiry: OnLeaseExpiry,
    fn: Work,
    options?: RunOptions,
  ): Promise<RunResult>;

  /**
   * What is known about a key.
   *
   * @throws IdempotencyError as a rejection: `RecordNotFound` if nothing is known
   */
  lookup(key: Key, options?: LookupOptions): Promise<IdempotencyRecord>;
}
