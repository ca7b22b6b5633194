/**
 * A Runner in memory, for tests of code that uses `runOnce`. No server, no gRPC.
 *
 * It answers as the service does: replays, key reuse, attempts that ended unknown, HOLD, waiting for
 * another call's outcome, not applied that frees the key. It has no leases that run out and nothing
 * expires; to see the real thing run `idempotencyd dev --ephemeral` and use IdempotencyClient.
 */

import { createHash } from "node:crypto";

import { checkCall, checkLookup, type Call, type CheckedRequest } from "./call.js";
import { Caller, goneError, stopReasonOf } from "./caller.js";
import { makeError, type ErrorKind, type IdempotencyError } from "./errors.js";
import { fakeAttempt } from "./fake_attempt.js";
import type { IdempotencyRecord, InProgress, RecordState, Replayed, RunResult } from "./result.js";
import {
  StopRequest,
  type Attempt,
  type LookupOptions,
  type Runner,
  type RunOptions,
  type StopReason,
  type Work,
} from "./runner.js";
import { resultOf, withWork } from "./run_result.js";
import { bytesOf } from "./text.js";
import { endOfWork, type EndedWork } from "./thrown_work.js";
import type {
  Key,
  OnLeaseExpiry,
  PreviousAttempt,
  RecordedFailure,
  RecordedOutcome,
  Request,
} from "./types.js";

const RETRY_AFTER_MS = 100;

interface FakeRecord {
  readonly recordId: string;
  readonly downstreamKey: string;
  readonly operation: string;
  readonly requestText: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly createTime: Date;
  onLeaseExpiry: OnLeaseExpiry;
  attemptNumber: number;
  fencingToken: bigint;
  unknownAttempts: number;
  previousAttempt: PreviousAttempt | undefined;
  startTime: Date;
  finishTime: Date | undefined;
  /** Of the last attempt; neither: it crashed, or is running. */
  outcome: RecordedOutcome | undefined;
  failure: RecordedFailure | undefined;
  state: RecordState;
  waiters: Set<() => void>;
}

export class FakeRunner implements Runner {
  readonly #records = new Map<string, FakeRecord>();
  #nextStartError: IdempotencyError | undefined;
  #losesNextRecord = false;
  #lastNumber = 0;

  /**
   * The next `runOnce` rejects with this error before `fn` runs, as if the service were away, say.
   * If it is `Unavailable` and the call says `RUN_UNPROTECTED`, then `fn` runs unprotected.
   */
  failNextStart(error: IdempotencyError): void {
    this.#nextStartError = error;
  }

  /** What the next `fn` comes to is not recorded: `OutcomeNotRecorded`, and it ends unknown. */
  loseNextRecord(): void {
    this.#losesNextRecord = true;
  }

  /** As if a process had died in `fn`: the key has an attempt that ended unknown. */
  crashAttempt(key: Key, request: Request, onLeaseExpiry: OnLeaseExpiry): void {
    const call = checkCall(key, request, onLeaseExpiry, neverCalled, {});
    this.#start(call).state = "ABANDONED";
  }

  async runOnce(
    key: Key,
    request: Request,
    onLeaseExpiry: OnLeaseExpiry,
    fn: Work,
    options: RunOptions = {},
  ): Promise<RunResult> {
    const call = checkCall(key, request, onLeaseExpiry, fn, options);
    const caller = new Caller(call.signal);
    try {
      throwIfGone(caller);
      const error = this.#nextStartError;
      this.#nextStartError = undefined;
      if (error !== undefined) return await this.#runUnprotected(call, caller, error);
      await this.#waitForOther(call, caller);
      // From here to the start of fn without a pause: two calls never both find the key free.
      return this.#answerWithoutWork(call) ?? (await this.#run(call, caller));
    } finally {
      caller.dispose();
    }
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- a rejection, as the client's
  async lookup(key: Key, options: LookupOptions = {}): Promise<IdempotencyRecord> {
    const { key: checkedKey, includeBody } = checkLookup(key, options);
    const record = this.#records.get(nameOf(checkedKey));
    if (record === undefined) throw errorOf("RecordNotFound", "RECORD_NOT_FOUND");
    const { recordId, operation, state, createTime, startTime, finishTime } = record;
    const { onLeaseExpiry, attemptNumber, unknownAttempts, fencingToken } = record;
    const { downstreamKey, labels, previousAttempt } = record;
    return {
      ...{ recordId, operation, state, createTime, startTime, finishTime },
      ...{ onLeaseExpiry, attemptNumber, unknownAttempts, fencingToken },
      ...{ downstreamKey, labels, previousAttempt },
      expired: false,
      expireTime: undefined,
      outcome: record.outcome && shownOutcomeOf(record.outcome, includeBody),
      failure: record.failure && {
        ...record.failure,
        outcome: record.failure.outcome && shownOutcomeOf(record.failure.outcome, includeBody),
      },
    };
  }

  async #waitForOther(call: Call, caller: Caller): Promise<void> {
    const record = this.#records.get(nameOf(call.key));
    if (record?.state !== "IN_PROGRESS" || call.waitTimeoutMs === 0) return;
    if (record.requestText !== textOf(call.request)) return;
    const nap = caller.nap(call.waitTimeoutMs);
    record.waiters.add(nap.end);
    await nap.ended;
    record.waiters.delete(nap.end);
    throwIfGone(caller);
  }

  #answerWithoutWork(call: Call): InProgress | Replayed | undefined {
    const record = this.#records.get(nameOf(call.key));
    if (record === undefined) return undefined;
    if (record.requestText !== textOf(call.request)) throw errorOf("KeyReused", "KEY_REUSED");
    if (record.state === "IN_PROGRESS") return inProgressOf(record);
    if (record.state === "ABANDONED" && record.onLeaseExpiry === "HOLD") {
      throw errorOf("NeedsResolution", "NEEDS_RESOLUTION");
    }
    return replayedOf(record);
  }

  async #run(call: Call, caller: Caller): Promise<RunResult> {
    const record = this.#start(call);
    const { previousAttempt, recordId, downstreamKey, attemptNumber, fencingToken } = record;
    const { unknownAttempts, onLeaseExpiry } = record;
    const ended = await endOfAttempt(call, caller, {
      ...{ previousAttempt, recordId, downstreamKey, attemptNumber, fencingToken },
      ...{ unknownAttempts, onLeaseExpiry },
    });
    return this.#end(record, ended);
  }

  async #runUnprotected(call: Call, caller: Caller, error: IdempotencyError): Promise<RunResult> {
    if (!call.mayRunUnprotected || error.kind !== "Unavailable") throw error;
    const { work, thrown } = await endOfAttempt(call, caller, {
      ...{ recordId: "", downstreamKey: "", attemptNumber: 0, fencingToken: 0n },
      unprotected: true,
      leaseRemainingMs: () => Infinity,
    });
    return { kind: "Unprotected", work, thrown, error };
  }

  /** Makes it the key's running attempt. */
  #start(call: Call): FakeRecord {
    const name = nameOf(call.key);
    const record = this.#records.get(name) ?? this.#newRecord(call);
    if (record.attemptNumber > 0) {
      record.previousAttempt = {
        attemptNumber: record.attemptNumber,
        startTime: record.startTime,
        leaseExpireTime: record.finishTime ?? record.startTime,
        failure: record.failure,
      };
      if (record.state !== "RELEASED") record.unknownAttempts += 1;
    }
    record.attemptNumber += 1;
    record.fencingToken = BigInt(++this.#lastNumber);
    if (call.onLeaseExpiry === "HOLD") record.onLeaseExpiry = "HOLD";
    record.startTime = new Date();
    record.finishTime = undefined;
    record.outcome = undefined;
    record.failure = undefined;
    record.state = "IN_PROGRESS";
    this.#records.set(name, record);
    return record;
  }

  #newRecord(call: Call): FakeRecord {
    const number = ++this.#lastNumber;
    return {
      recordId: uuidText("0000fa4e", number),
      downstreamKey: uuidText("0000d0e5", number),
      operation: call.request.operation,
      requestText: textOf(call.request),
      labels: call.labels,
      createTime: new Date(),
      onLeaseExpiry: call.onLeaseExpiry,
      attemptNumber: 0,
      fencingToken: 0n,
      unknownAttempts: 0,
      previousAttempt: undefined,
      startTime: new Date(),
      finishTime: undefined,
      outcome: undefined,
      failure: undefined,
      state: "IN_PROGRESS",
      waiters: new Set(),
    };
  }

  #end(record: FakeRecord, ended: EndedWork): RunResult {
    const isLost = this.#losesNextRecord;
    this.#losesNextRecord = false;
    const { recordId, attemptNumber } = record;
    const finishTime = new Date();
    const result = resultOf(ended, recordId, attemptNumber, { finishTime, withoutBody: false });
    if (isLost) {
      record.state = "ABANDONED";
    } else {
      record.finishTime = finishTime;
      if (result.kind === "Completed") record.outcome = result.outcome;
      else record.failure = result.failure;
      record.state = result.kind === "Completed" ? "COMPLETED" : stateOf(result.failure);
    }
    for (const wake of record.waiters) wake();
    record.waiters.clear();
    if (isLost) {
      throw withWork(makeError("OutcomeNotRecorded", "FakeRunner: the record is lost"), ended);
    }
    return result;
  }
}

async function endOfAttempt(
  call: Call,
  caller: Caller,
  fields: Partial<Attempt>,
): Promise<EndedWork> {
  const controller = new AbortController();
  let stopReason: StopReason = "none";
  const stop = caller.onGone((why) => {
    stopReason = stopReasonOf(why);
    controller.abort(new StopRequest(stopReason));
  });
  const attempt: Attempt = {
    ...fakeAttempt(fields),
    signal: controller.signal,
    get stopReason() {
      return stopReason;
    },
  };
  const ended = await endOfWork(() => call.fn(attempt), call.classify);
  stop();
  return ended;
}

function throwIfGone(caller: Caller): void {
  if (caller.whyGone !== undefined) throw goneError(caller.whyGone);
}

function neverCalled(): never {
  throw new Error("a crashed attempt has no work");
}

function nameOf(key: Key): string {
  return JSON.stringify([key.merchantId, key.idempotencyKey]);
}

/** Equal for equal requests. JSON is compared byte for byte here: a real service is the judge of it. */
function textOf({ operation, payload, fingerprint }: CheckedRequest): string {
  const digest =
    payload === undefined
      ? Buffer.from(fingerprint).toString("hex")
      : createHash("sha256").update(bytesOf(payload.data)).digest("hex");
  return JSON.stringify([operation, payload?.contentType, digest]);
}

/** The text of a UUID, so that code which parses one can be tested. */
function uuidText(prefix: string, number: number): string {
  return `${prefix}-0000-8000-8000-${String(number).padStart(12, "0")}`;
}

function errorOf(kind: ErrorKind, reason: string): IdempotencyError {
  return makeError(kind, { message: `FakeRunner: ${reason}`, reason });
}

function stateOf(failure: RecordedFailure): RecordState {
  if (failure.disposition === "final") return "FAILED";
  return failure.disposition === "not_applied" ? "RELEASED" : "ABANDONED";
}

function inProgressOf(record: FakeRecord): InProgress {
  const { recordId, attemptNumber, startTime } = record;
  return {
    kind: "InProgress",
    retryAfterMs: RETRY_AFTER_MS,
    leaseRemainingMs: 60_000,
    ...{ recordId, attemptNumber, startTime },
  };
}

/** Undefined: the work is to be done. */
function replayedOf(record: FakeRecord): Replayed | undefined {
  const { recordId, attemptNumber, startTime, outcome, failure } = record;
  const finishTime = record.finishTime ?? startTime;
  const fields = { kind: "Replayed" as const, recordId, attemptNumber, startTime, finishTime };
  if (outcome !== undefined) return { ...fields, outcome };
  return failure?.disposition === "final" ? { ...fields, failure } : undefined;
}

function shownOutcomeOf(outcome: RecordedOutcome, includeBody: boolean): RecordedOutcome {
  if (outcome.body === undefined) return outcome;
  return {
    ...outcome,
    body: includeBody ? outcome.body : undefined,
    bodySize: outcome.body.length,
    bodySha256: createHash("sha256").update(outcome.body).digest(),
  };
}
