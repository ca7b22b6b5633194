/** One `runOnce`, from its Begin to its record. */

import { randomUUID } from "node:crypto";

import { create, toBinary } from "@bufbuild/protobuf";

import type { Call } from "./call.js";
import { CallFailure } from "./call_failure.js";
import { goneError, stopReasonOf, type Caller, type GoneReason } from "./caller.js";
import { Check } from "./check.js";
import { after, now, until, type Instant } from "./clock.js";
import {
  attemptFieldsOf,
  beginRequestOf,
  durationOf,
  failureMessageOf,
  inProgressOf,
  msOf,
  outcomeMessageOf,
  replayedOf,
  type AttemptFields,
} from "./convert.js";
import { repeat, type Core, type Traces } from "./core.js";
import { downstreamKeyFor } from "./downstream_key.js";
import { IdempotencyError, invalidField, makeError } from "./errors.js";
import {
  BeginRequestSchema,
  BeginResponseSchema,
  CompleteRequestSchema,
  FailRequestSchema,
  RenewRequestSchema,
  RenewResponseSchema,
  type BeginRequest,
  type BeginResponse,
  type CompleteRequest,
  type FailRequest,
  type Started,
} from "./gen/idempotency/v1/idempotency_service_pb.js";
import { LeaseKeeper, leftOf, type Lease } from "./lease_keeper.js";
import { Recorder } from "./recorder.js";
import type { InProgress, Replayed, RunResult } from "./result.js";
import type { Attempt } from "./runner.js";
import {
  reportLost,
  reportUnprotected,
  resultOf,
  stillRecordingError,
  withWork,
} from "./run_result.js";
import { endOfWork, type EndedWork } from "./thrown_work.js";
import { WorkResult } from "./types.js";
import type { Try } from "./wire.js";

// The server counts a longer wait as this one; a caller that wants more is asked for again.
const LONGEST_WAIT_MS = 30_000;
// How long a caller that is gone is still kept for the record: usually it takes milliseconds, and
// then the caller gets the true answer.
const RECORD_GRACE_MS = 1_000;
// A service that says to ask again at once is not asked in a busy loop.
const SHORTEST_PAUSE_MS = 10;
const UUID_LENGTH = 36;

type BegunWork =
  | {
      readonly kind: "started";
      readonly response: BeginResponse;
      readonly started: Started;
      lease: Lease;
    }
  | { readonly kind: "unprotected"; readonly error: IdempotencyError };

export class Run {
  readonly #owner: { merchantId: string; idempotencyKey: string; attemptId: string };
  readonly #beginRequest: BeginRequest;
  readonly #traces: Traces = { mayHaveEffect: false, wasReached: false };
  #begin: Try<typeof BeginResponseSchema> | undefined;
  #sentAt: Instant = now();

  constructor(
    private readonly core: Core,
    private readonly call: Call,
    private readonly caller: Caller,
  ) {
    const attemptId = randomUUID();
    const { merchantId, idempotencyKey } = call.key;
    this.#owner = { merchantId, idempotencyKey, attemptId };
    this.#beginRequest = beginRequestOf(call, attemptId);
  }

  async execute(): Promise<RunResult> {
    const begun = await this.#beginWork();
    // From here to the start of fn without a pause: none starts on a client that is closing.
    if (begun.kind === "started" || begun.kind === "unprotected") this.#throwIfClosed();
    switch (begun.kind) {
      case "started":
        return this.#record(begun, await this.#doWork(begun));
      case "unprotected":
        return this.#runUnprotected(begun.error);
      default:
        return begun;
    }
  }

  async #beginWork(): Promise<BegunWork | InProgress | Replayed> {
    const waitEnd = after(this.call.waitTimeoutMs);
    const giveUpAt = waitEnd + this.call.startTimeoutMs;
    for (;;) {
      this.#throwIfGone();
      this.#throwIfClosed();
      const response = await this.#beginOnce(waitEnd, giveUpAt);
      if (response instanceof CallFailure) return this.#onRefused(response);
      const { result } = response;
      if (result.case === "started") return this.#onStarted(response, result.value, giveUpAt);
      if (result.case === "replay") {
        const replayed = replayedOf(response, result.value);
        if (replayed !== undefined) return replayed;
      }
      if (result.case !== "inProgress") {
        this.#traces.mayHaveEffect = true;
        throw this.#giveUp(
          makeError("Internal", "the service's answer to Begin is none that this client knows"),
        );
      }
      // Another attempt owns the work, so ours does not. It is asked again if the service ended the
      // wait early, which it may when it holds too many.
      this.#traces.mayHaveEffect = false;
      this.#traces.wasReached = true;
      const inProgress = inProgressOf(response, result.value);
      const pauseMs = Math.max(inProgress.retryAfterMs, SHORTEST_PAUSE_MS);
      if (after(pauseMs) >= waitEnd || this.core.isClosed) return inProgress;
      await this.core.pause(this.caller, pauseMs);
    }
  }

  #beginOnce(waitEnd: number, giveUpAt: number): Promise<BeginResponse | CallFailure> {
    const waits = this.call.waitTimeoutMs > 0;
    const waitMs = (): number => Math.min(until(waitEnd), LONGEST_WAIT_MS);
    const plan = {
      wire: waits ? this.core.waits : this.core.calls,
      nextTry: (): Try<typeof BeginResponseSchema> => {
        if (waits) this.#beginRequest.waitTimeout = durationOf(Math.ceil(waitMs()));
        if (waits || this.#begin === undefined) {
          this.#begin = {
            rpc: "Begin",
            schema: BeginResponseSchema,
            request: Buffer.from(toBinary(BeginRequestSchema, this.#beginRequest)),
            isWhole: ({ result }) => result.case !== undefined,
          };
        }
        this.#sentAt = now();
        return this.#begin;
      },
      giveUpAt,
      waitMs: waitMs(),
      // A record on HOLD that is wrongly taken for never begun would need a person: there the
      // release is sent on the least suspicion.
      trustsState: this.call.onLeaseExpiry !== "HOLD",
      mayEndUnprotected: this.call.mayRunUnprotected && !this.#traces.wasReached,
    };
    return repeat(this.core, this.caller, plan, this.#traces);
  }

  #onRefused(failure: CallFailure): BegunWork {
    this.#throwIfGone();
    // The service knows this attempt as one that was started, or cannot tell us whether it does (it
    // may have run the call twice): what never began is said not to have happened. If the attempt is
    // none of the record's, that changes nothing.
    const isOver = failure.kind === "LeaseLost" || failure.kind === "NeedsResolution";
    if (isOver && !this.#traces.mayHaveEffect) this.#releaseInBackground(false);
    if (failure.isWorthRepeating) this.#throwIfClosed();
    const error = failure.toError();
    // Without one try it is not known that the service is away: a connection may have been coming.
    const hasTried = this.#begin !== undefined;
    const mayRun = this.call.mayRunUnprotected && hasTried && !this.#traces.wasReached;
    // One that must not be repeated ended before start_timeout was over.
    if (mayRun && failure.isWorthRepeating) return { kind: "unprotected", error };
    throw this.#giveUp(error);
  }

  async #onStarted(
    response: BeginResponse,
    started: Started,
    giveUpAt: number,
  ): Promise<BegunWork> {
    this.#traces.mayHaveEffect = true;
    const { attemptId, attemptNumber, downstreamKey, leaseRemaining } = started;
    const isWhole =
      response.recordId !== "" && attemptNumber >= 1 && downstreamKey.length === UUID_LENGTH;
    if (attemptId !== this.#owner.attemptId || leaseRemaining === undefined || !isWhole) {
      throw this.#giveUp(
        makeError("Internal", "the service started another attempt than ours, or not all of it"),
      );
    }
    let lease = { sentAt: this.#sentAt, durationMs: msOf(leaseRemaining) };
    // Over before it came here: a repeat of a Begin whose first answer was lost, or a slow way. Only
    // a Renew makes it good.
    if (leftOf(lease) === 0) {
      lease = await this.#renewLease(giveUpAt);
      if (leftOf(lease) === 0) {
        throw this.#giveUp(
          makeError("LeaseLost", "the lease is shorter than the way to the service and back"),
        );
      }
    }
    this.#throwIfGone();
    return { kind: "started", response, started, lease };
  }

  async #renewLease(giveUpAt: number): Promise<Lease> {
    let sentAt = now();
    const nextTry = (): Try<typeof RenewResponseSchema> => {
      sentAt = now();
      return this.#renewal;
    };
    const plan = { wire: this.core.calls, nextTry, giveUpAt };
    const response = await repeat(this.core, this.caller, plan, this.#traces);
    if (response instanceof CallFailure) {
      this.#throwIfGone();
      this.#throwIfClosed();
      throw this.#giveUp(response.toError());
    }
    return { sentAt, durationMs: msOf(response.leaseRemaining) };
  }

  get #renewal(): Try<typeof RenewResponseSchema> {
    const request = create(RenewRequestSchema, this.#owner);
    if (this.#beginRequest.leaseDuration !== undefined) {
      request.leaseDuration = this.#beginRequest.leaseDuration;
    }
    return {
      rpc: "Renew",
      schema: RenewResponseSchema,
      request: Buffer.from(toBinary(RenewRequestSchema, request)),
      isWhole: ({ leaseRemaining }) => leaseRemaining !== undefined,
    };
  }

  #throwIfGone(): void {
    if (this.caller.whyGone !== undefined) throw this.#giveUp(goneError(this.caller.whyGone));
  }

  #throwIfClosed(): void {
    if (this.core.isClosed) throw this.#giveUp(goneError("closed"));
  }

  /** `fn` will not run: releases the key if the service may have started this attempt. */
  #giveUp(error: IdempotencyError): IdempotencyError {
    if (this.#traces.mayHaveEffect) this.#releaseInBackground(true);
    return error;
  }

  #releaseInBackground(mayBeEarly: boolean): void {
    if (this.core.recorders.size >= this.core.options.maxBackgroundRecords) return;
    const nothing = WorkResult.notApplied("NOT_BEGUN", "the caller gave up before the work began");
    const request = this.#recordRequestOf(nothing, new Check());
    new Recorder(this.core, request, () => undefined, mayBeEarly);
  }

  #doWork({ response, started, lease }: BegunWork & { kind: "started" }): Promise<EndedWork> {
    const keeper = new LeaseKeeper(this.core, this.#renewal, lease, this.call.maxDurationMs);
    return this.#doWorkUnder(keeper, attemptFieldsOf(response, started));
  }

  async #doWorkUnder(keeper: LeaseKeeper, fields: AttemptFields): Promise<EndedWork> {
    const attempt: Attempt = {
      ...fields,
      signal: keeper.signal,
      get stopReason() {
        return keeper.stopReason;
      },
      leaseRemainingMs: () => keeper.leaseRemainingMs(),
      downstreamKeyFor: (partner, shape) => downstreamKeyFor(fields.downstreamKey, partner, shape),
    };
    keeper.start();
    const stop = (why: GoneReason): void => {
      keeper.stop(stopReasonOf(why));
    };
    const forget = [this.caller, this.core.closing].map((one) => one.onGone(stop));
    const ended = await endOfWork(() => this.call.fn(attempt), this.call.classify);
    for (const end of forget) end();
    keeper.end();
    return ended;
  }

  #recordRequestOf(work: WorkResult, check: Check): CompleteRequest | FailRequest {
    return work.kind === "completed"
      ? create(CompleteRequestSchema, {
          ...this.#owner,
          outcome: outcomeMessageOf(work.outcome, check, "outcome"),
        })
      : create(FailRequestSchema, {
          ...this.#owner,
          failure: failureMessageOf(work.failure, check),
        });
  }

  async #record(begun: BegunWork & { kind: "started" }, ended: EndedWork): Promise<RunResult> {
    const onLost = (error: IdempotencyError): void => {
      reportLost(this.core, this.call.key, ended, error);
    };
    let recorder: Recorder;
    try {
      const check = new Check();
      const request = this.#recordRequestOf(ended.work, check);
      check.end();
      recorder = new Recorder(this.core, request, onLost, false);
    } catch (error) {
      // What no message can hold, or cannot even be read: a getter that throws, a detached buffer.
      const lost = error instanceof IdempotencyError ? (error as IdempotencyError) : unreadable();
      onLost(lost);
      throw withWork(lost, ended);
    }
    const end = await recorder.await(this.caller, RECORD_GRACE_MS);
    if (end === undefined) throw stillRecordingError(ended);
    if (end instanceof Error) throw withWork(end, ended);
    return resultOf(ended, begun.response.recordId, begun.started.attemptNumber, end);
  }

  async #runUnprotected(error: IdempotencyError): Promise<RunResult> {
    reportUnprotected(this.core, this.call.key, error);
    const lease = { sentAt: now(), durationMs: Infinity };
    const keeper = new LeaseKeeper(this.core, undefined, lease, this.call.maxDurationMs);
    const fields = {
      recordId: "",
      attemptNumber: 0,
      fencingToken: 0n,
      downstreamKey: "",
      unknownAttempts: 0,
      previousAttempt: undefined,
      repeated: false,
      unprotected: true,
      onLeaseExpiry: this.call.onLeaseExpiry,
    };
    const { work, thrown } = await this.#doWorkUnder(keeper, fields);
    return { kind: "Unprotected", work, thrown, error };
  }
}

function unreadable(): IdempotencyError {
  return invalidField("outcome", "cannot be read");
}
