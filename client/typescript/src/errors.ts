/** The errors that `runOnce` and `lookup` reject with. The names are the same in all languages. */

import type { Thrown, WorkResult } from "./types.js";

/**
 * Why a call came to nothing.
 *
 * - `InvalidField`: a field is wrong; `violations` names it. A mistake in the program.
 * - `KeyReused`: the key is in use for another request. A new request needs a new key.
 * - `LeaseLost`: the attempt is over, a newer one may have the work.
 * - `OutcomeConflict`: this attempt recorded something else before; the first stays.
 * - `NeedsResolution`: an attempt ended unknown and nobody may start another. Never go round it with
 *   another key.
 * - `RecordNotFound`: nothing is known about the key.
 * - `Unauthenticated`: no or bad credentials.
 * - `PermissionDenied`: not this caller's merchant or right.
 * - `RateLimited`: the merchant is over its rate; `retryAfterMs` says how long to wait.
 * - `RequestTooLarge`: over what the server takes; send a fingerprint instead of the payload.
 * - `Unavailable`: the service, or its database, cannot be reached.
 * - `DeadlineExceeded`: the service did not answer in time, or the caller's deadline passed.
 * - `Cancelled`: the caller cancelled.
 * - `OutcomeNotRecorded`: the work has ended, and what it came to is not recorded, or not yet: see
 *   `stillRecording`.
 * - `Internal`: the service failed, or gave an answer that this client does not understand.
 */
export type ErrorKind =
  | "InvalidField"
  | "KeyReused"
  | "LeaseLost"
  | "OutcomeConflict"
  | "NeedsResolution"
  | "RecordNotFound"
  | "Unauthenticated"
  | "PermissionDenied"
  | "RateLimited"
  | "RequestTooLarge"
  | "Unavailable"
  | "DeadlineExceeded"
  | "Cancelled"
  | "OutcomeNotRecorded"
  | "Internal";

export interface FieldViolation {
  /**
   * The field by its name in the API and in all languages, such as `lease_duration` or
   * `outcome.headers[3].name`.
   */
  readonly field: string;
  readonly description: string;
}

/** What an error is made of. */
export interface ErrorDetails {
  readonly message: string;
  readonly reason?: string | undefined;
  readonly grpcCode?: number | undefined;
  readonly violations?: readonly FieldViolation[] | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly work?: WorkResult | undefined;
  readonly thrown?: Thrown | undefined;
  readonly stillRecording?: boolean | undefined;
}

/**
 * An operation that ended without an answer.
 *
 * The one thing to look at first is `work`: if it is `undefined`, `fn` did not run, and nothing
 * happened by this call. If it is there, `fn` did run, and this is what it came to, although the
 * record could not be made of it.
 */
export abstract class IdempotencyError<K extends ErrorKind = ErrorKind> extends Error {
  /** The same name in all languages; the class is called so, too. */
  abstract readonly kind: K;
  /** The server's word, such as `"STORE_UNAVAILABLE"`; empty when it gave none. */
  readonly reason: string;
  /** gRPC's status code; 0 when no call failed. */
  readonly grpcCode: number;
  readonly violations: readonly FieldViolation[];
  /** What the server adds to the reason: for `KEY_REUSED` the record's id, state and creation. */
  readonly metadata: Readonly<Record<string, string>>;
  /** How long to wait before another try; absent where waiting does not help or nothing is known. */
  readonly retryAfterMs: number | undefined;
  /** What `fn` came to, exactly when it ran. */
  readonly work: WorkResult | undefined;
  /** What `fn` threw, if it did. Not `cause`: it may hold what must not be logged. */
  readonly thrown: Thrown | undefined;
  /**
   * Only with `OutcomeNotRecorded`: the caller has left, and the record is still being made in the
   * background.
   */
  readonly stillRecording: boolean;

  constructor(details: ErrorDetails) {
    super(details.message);
    this.reason = details.reason ?? "";
    this.grpcCode = details.grpcCode ?? 0;
    this.violations = details.violations ?? [];
    this.metadata = details.metadata ?? {};
    this.retryAfterMs = details.retryAfterMs;
    this.stillRecording = details.stillRecording ?? false;
    // What may hold a body or a card number is not shown by loggers, which print an error's
    // enumerable properties.
    Object.defineProperty(this, "work", { value: details.work, enumerable: false });
    Object.defineProperty(this, "thrown", { value: details.thrown, enumerable: false });
  }
}

export class InvalidFieldError extends IdempotencyError<"InvalidField"> {
  readonly kind = "InvalidField";
}
export class KeyReusedError extends IdempotencyError<"KeyReused"> {
  readonly kind = "KeyReused";
}
export class LeaseLostError extends IdempotencyError<"LeaseLost"> {
  readonly kind = "LeaseLost";
}
export class OutcomeConflictError extends IdempotencyError<"OutcomeConflict"> {
  readonly kind = "OutcomeConflict";
}
export class NeedsResolutionError extends IdempotencyError<"NeedsResolution"> {
  readonly kind = "NeedsResolution";
}
export class RecordNotFoundError extends IdempotencyError<"RecordNotFound"> {
  readonly kind = "RecordNotFound";
}
export class UnauthenticatedError extends IdempotencyError<"Unauthenticated"> {
  readonly kind = "Unauthenticated";
}
export class PermissionDeniedError extends IdempotencyError<"PermissionDenied"> {
  readonly kind = "PermissionDenied";
}
export class RateLimitedError extends IdempotencyError<"RateLimited"> {
  readonly kind = "RateLimited";
}
export class RequestTooLargeError extends IdempotencyError<"RequestTooLarge"> {
  readonly kind = "RequestTooLarge";
}
export class UnavailableError extends IdempotencyError<"Unavailable"> {
  readonly kind = "Unavailable";
}
export class DeadlineExceededError extends IdempotencyError<"DeadlineExceeded"> {
  readonly kind = "DeadlineExceeded";
}
export class CancelledError extends IdempotencyError<"Cancelled"> {
  readonly kind = "Cancelled";
}
export class OutcomeNotRecordedError extends IdempotencyError<"OutcomeNotRecorded"> {
  readonly kind = "OutcomeNotRecorded";
}
export class InternalError extends IdempotencyError<"Internal"> {
  readonly kind = "Internal";
}

const CLASSES: {
  readonly [K in ErrorKind]: new (details: ErrorDetails) => IdempotencyError<K>;
} = {
  InvalidField: InvalidFieldError,
  KeyReused: KeyReusedError,
  LeaseLost: LeaseLostError,
  OutcomeConflict: OutcomeConflictError,
  NeedsResolution: NeedsResolutionError,
  RecordNotFound: RecordNotFoundError,
  Unauthenticated: UnauthenticatedError,
  PermissionDenied: PermissionDeniedError,
  RateLimited: RateLimitedError,
  RequestTooLarge: RequestTooLargeError,
  Unavailable: UnavailableError,
  DeadlineExceeded: DeadlineExceededError,
  Cancelled: CancelledError,
  OutcomeNotRecorded: OutcomeNotRecordedError,
  Internal: InternalError,
};

// On the prototypes, so that it is there when the stack is captured, and survives minifying.
for (const [kind, errorClass] of Object.entries(CLASSES)) {
  Object.defineProperty(errorClass.prototype, "name", { value: `${kind}Error` });
}

/** The error of that kind, for tests and fakes as well. */
export function makeError<K extends ErrorKind>(
  kind: K,
  details: ErrorDetails | string,
): IdempotencyError<K> {
  return new CLASSES[kind](typeof details === "string" ? { message: details } : details);
}

/** `InvalidField` of one field. */
export function invalidField(field: string, description: string): InvalidFieldError {
  return new InvalidFieldError({
    message: `${field}: ${description}`,
    violations: [{ field, description }],
  });
}
