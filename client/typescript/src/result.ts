/** What a `runOnce` comes to, and what `lookup` shows. Errors are in errors.ts. */

import { wholeOutcomeOf } from "./convert.js";
import type { IdempotencyError } from "./errors.js";
import type {
  OnLeaseExpiry,
  PreviousAttempt,
  RecordedFailure,
  RecordedOutcome,
  Thrown,
  WorkResult,
} from "./types.js";

/** This call did the work, and its outcome is recorded. */
export interface Completed {
  readonly kind: "Completed";
  readonly outcome: RecordedOutcome;
  /** True: the outcome's body was too large for the server; its size and digest are recorded. */
  readonly recordedWithoutBody: boolean;
  readonly recordId: string;
  readonly attemptNumber: number;
  readonly finishTime: Date;
}

/** This call did the work, it failed, and that is recorded. */
export interface Failed {
  readonly kind: "Failed";
  readonly failure: RecordedFailure;
  /** What `fn` threw, if it did. */
  readonly thrown: Thrown | undefined;
  /** As in {@link Completed}, for the failure's outcome. */
  readonly recordedWithoutBody: boolean;
  readonly recordId: string;
  readonly attemptNumber: number;
  readonly finishTime: Date;
}

/**
 * The work was done before, `fn` did not run: the answer that was recorded then, an outcome or a
 * final failure.
 */
export type Replayed = {
  readonly kind: "Replayed";
  readonly recordId: string;
  /** Of the attempt that did it. */
  readonly attemptNumber: number;
  readonly startTime: Date;
  readonly finishTime: Date;
} & (
  | { readonly outcome: RecordedOutcome; readonly failure?: undefined }
  | { readonly failure: RecordedFailure; readonly outcome?: undefined }
);

/** Somebody else is at it, `fn` did not run. Over HTTP: 409 with Retry-After. */
export interface InProgress {
  readonly kind: "InProgress";
  readonly retryAfterMs: number;
  readonly leaseRemainingMs: number;
  readonly recordId: string;
  readonly attemptNumber: number;
  readonly startTime: Date;
}

/**
 * `fn` ran without the service, because the caller had typed out `RUN_UNPROTECTED`. Nothing is
 * recorded, and another call may do the work again.
 */
export interface Unprotected {
  readonly kind: "Unprotected";
  readonly work: WorkResult;
  /** What `fn` threw, if it did. */
  readonly thrown: Thrown | undefined;
  /** Why the service was not reached. */
  readonly error: IdempotencyError;
}

export type RunResult = Completed | Replayed | InProgress | Failed | Unprotected;

/**
 * The outcome, whether this call did the work, it was replayed, or it ran unprotected: for those to
 * whom that makes no difference. `undefined` for everything else, final failures included.
 */
export function outcomeOf(result: RunResult): RecordedOutcome | undefined {
  switch (result.kind) {
    case "Completed":
    case "Replayed":
      return result.outcome;
    case "Unprotected":
      return result.work.outcome && wholeOutcomeOf(result.work.outcome);
    default:
      return undefined;
  }
}

export type RecordState = "IN_PROGRESS" | "COMPLETED" | "FAILED" | "RELEASED" | "ABANDONED";

/** What `lookup` shows of a key. */
export interface IdempotencyRecord {
  readonly recordId: string;
  readonly operation: string;
  readonly state: RecordState;
  /** Past its retention: the next call starts anew. */
  readonly expired: boolean;
  readonly createTime: Date;
  readonly startTime: Date;
  readonly finishTime: Date | undefined;
  /** Absent while the record is not settled: such a record does not expire. */
  readonly expireTime: Date | undefined;
  readonly onLeaseExpiry: OnLeaseExpiry;
  readonly attemptNumber: number;
  readonly unknownAttempts: number;
  readonly fencingToken: bigint;
  readonly downstreamKey: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Its body only if asked for; size and digest whenever there was a body. */
  readonly outcome: RecordedOutcome | undefined;
  readonly failure: RecordedFailure | undefined;
  readonly previousAttempt: PreviousAttempt | undefined;
}
