/** What the calls of one client share. */

import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { Backoff } from "./backoff.js";
import { CallFailure } from "./call_failure.js";
import { Caller } from "./caller.js";
import { after, until } from "./clock.js";
import type { IdempotencyError } from "./errors.js";
import type { Recorder } from "./recorder.js";
import type { Key, WorkResult } from "./types.js";
import type { Rpc, Try, Wire } from "./wire.js";

/**
 * Told as it happens. Must not block; what they throw, or reject with, is ignored: no hook may cost
 * an outcome.
 */
export interface Hooks {
  /**
   * The work has ended and what it came to could not be recorded: the service refused it (say,
   * `LeaseLost`) or could not be reached for `recordTimeoutMs`, or the client was closed first. Write
   * it where somebody will look: money may have moved without a record. Without this hook there is a
   * process warning instead.
   */
  readonly onOutcomeNotRecorded?: (key: Key, work: WorkResult, error: IdempotencyError) => unknown;
  /** A call failed and is repeated. For metrics. */
  readonly onRetry?: (rpc: Rpc, error: IdempotencyError) => unknown;
  /** Work is about to run unprotected: `RUN_UNPROTECTED` was typed out and the service is away. */
  readonly onUnprotected?: (key: Key, error: IdempotencyError) => unknown;
  /**
   * A call was refused as UNAUTHENTICATED and is repeated once: forget cached credentials. If it
   * returns a promise, the repeat waits for it, `rpcTimeoutMs` at most.
   */
  readonly refreshCredentials?: () => unknown;
}

export interface CoreOptions {
  readonly rpcTimeoutMs: number;
  readonly recordTimeoutMs: number;
  readonly maxBackgroundRecords: number;
  readonly hooks: Hooks;
}

export class Core {
  readonly recorders = new Set<Recorder>();
  unprotectedRuns = 0;
  /** Gone when the client begins to close: work that runs is asked to stop. */
  readonly closing = new Caller();
  readonly #callers = new Set<Caller>();
  #hasGivenUp = false;
  #onIdle: (() => void) | undefined;

  constructor(
    readonly options: CoreOptions,
    readonly calls: Wire,
    /** For Begins with a wait_timeout, over connections of their own: they never hold up a record. */
    readonly waits: Wire,
  ) {}

  /** No call begins any more. */
  get isClosed(): boolean {
    return this.closing.whyGone !== undefined;
  }

  /** Nothing can be sent any more. */
  get hasGivenUp(): boolean {
    return this.#hasGivenUp;
  }

  /** Lets `body` have a caller, until its promise has settled. */
  async withCaller<T>(
    signal: AbortSignal | undefined,
    body: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    const caller = new Caller(signal);
    this.#callers.add(caller);
    try {
      return await body(caller);
    } finally {
      caller.dispose();
      this.#callers.delete(caller);
      this.lookIdle();
    }
  }

  /** A recorder, or a call, has ended. */
  lookIdle(): void {
    if (this.recorders.size === 0 && this.#callers.size === 0) this.#onIdle?.();
  }

  /** Sleeps before a call is repeated: until then, or the caller is gone, or the client closes. */
  async pause(caller: Caller, spanMs: number): Promise<void> {
    const nap = caller.nap(spanMs);
    const forget = this.closing.onGone(nap.end);
    await nap.ended;
    forget();
  }

  /** Takes no new calls; asks work to stop; waits for those under way and what they record; then gives them up. */
  async close(shutdownTimeoutMs: number): Promise<void> {
    this.closing.leave("closed");
    const nap = new Caller().nap(shutdownTimeoutMs);
    this.#onIdle = nap.end;
    this.lookIdle();
    await nap.ended;
    this.#hasGivenUp = true;
    for (const caller of this.#callers) caller.leave("closed");
    for (const recorder of this.recorders) recorder.abandon();
    this.calls.close();
    this.waits.close();
  }

  async refreshCredentials(caller: Caller): Promise<void> {
    const hook = this.options.hooks.refreshCredentials;
    if (hook === undefined) return;
    const nap = caller.nap(this.options.rpcTimeoutMs);
    await Promise.race([callHook(hook), nap.ended]);
    nap.end();
  }
}

/** Resolves when what the hook returned has settled; never rejects. */
export async function callHook<A extends unknown[]>(
  hook: ((...args: A) => unknown) | undefined,
  ...args: A
): Promise<void> {
  try {
    await hook?.(...args);
  } catch {
    // See Hooks.
  }
}

/** A try that is repeated until it is answered, refused for good, or nobody waits any more. */
export interface RepeatPlan<S extends DescMessage> {
  readonly wire: Wire;
  /** Called for each try. */
  readonly nextTry: () => Try<S>;
  /** On the monotonic clock; no try begins after that. */
  readonly giveUpAt: number;
  /** What a try may take beyond rpcTimeoutMs. */
  readonly waitMs?: number;
  /** A try that failed without a connection before, in and after it counts as never sent. */
  readonly trustsState?: boolean;
  /**
   * The call may end in a run without the service: so each try waits until it is known whether there
   * is a connection, and the last one gets the time to be answered.
   */
  readonly mayEndUnprotected?: boolean;
}

/** What is known of a call's tries so far, over all of them. */
export interface Traces {
  /** One of them may have changed the record although it failed. */
  mayHaveEffect: boolean;
  /** One of them was neither certainly never sent nor refused by a service that could not serve it. */
  wasReached: boolean;
}

// The least for the last try of a call that may end unprotected. Guessed; a try cut off sooner
// would count as an answer that was lost.
const LEAST_LAST_TRY_MS = 1_000;

/** Returns the answer, or the last failure. */
export async function repeat<S extends DescMessage>(
  core: Core,
  caller: Caller,
  plan: RepeatPlan<S>,
  traces: Traces,
): Promise<MessageShape<S> | CallFailure> {
  const { wire } = plan;
  const backoff = new Backoff();
  const longestTryMs = core.options.rpcTimeoutMs + (plan.waitMs ?? 0);
  const leastTryMs = plan.mayEndUnprotected === true ? LEAST_LAST_TRY_MS : 0;
  let hasRefreshed = false;
  let hasTried = false;
  let last = new CallFailure(Code.UNAVAILABLE, "there was no connection to the service in time");
  for (;;) {
    if (plan.mayEndUnprotected === true) await wire.settle(plan.giveUpAt, caller);
    const isOver = caller.whyGone !== undefined || core.isClosed;
    if (isOver || until(plan.giveUpAt) === 0) return last;
    const one = plan.nextTry();
    const downBefore = wire.downSince;
    const timeoutMs = Math.min(longestTryMs, Math.max(until(plan.giveUpAt), leastTryMs));
    const answer = await wire.call(one, timeoutMs, caller);
    if (!(answer instanceof CallFailure)) return answer;
    // A try that was cut short by the end says less about the service than the one before it.
    const wasCut = answer.code === Code.DEADLINE_EXCEEDED && timeoutMs < longestTryMs;
    if (!wasCut || !hasTried) last = answer;
    hasTried = true;

    const wasNeverSent =
      downBefore !== undefined &&
      downBefore === wire.downSince &&
      answer.code === Code.UNAVAILABLE &&
      answer.reason === "";
    const isTrusted = plan.trustsState === true && wasNeverSent;
    if (answer.mayHaveEffect && !isTrusted) traces.mayHaveEffect = true;
    if (!answer.wasUnserved && !isTrusted) traces.wasReached = true;
    if (caller.whyGone !== undefined) return last;
    const refresh = answer.code === Code.UNAUTHENTICATED && !hasRefreshed && !answer.mustNotRetry;
    if (!refresh && !answer.isWorthRepeating) return last;
    const pauseMs = refresh ? 0 : backoff.next(answer.retryAfterMs);
    if (after(pauseMs) >= plan.giveUpAt) return last;
    void callHook(core.options.hooks.onRetry, one.rpc, answer.toError());
    if (refresh) {
      hasRefreshed = true;
      await core.refreshCredentials(caller);
    }
    await core.pause(caller, pauseMs);
  }
}
