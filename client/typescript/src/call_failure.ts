/** What a failed call means: the one place where gRPC's statuses and their details become errors. */

import { fromBinary } from "@bufbuild/protobuf";
import { status as Code, type Metadata } from "@grpc/grpc-js";

import { msOf } from "./convert.js";
import { makeError, type ErrorKind, type FieldViolation, type IdempotencyError } from "./errors.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  StatusDetailsSchema,
} from "./gen/idempotency/client/v1/status_details_pb.js";
import { ErrorReason } from "./gen/idempotency/v1/error_pb.js";

const DOMAIN = "idempotency.v1";
const DETAILS_TRAILER = "grpc-status-details-bin";
const PUSHBACK_TRAILER = "grpc-retry-pushback-ms";
const LONGEST_PUSHBACK_MS = 2 ** 31 - 1;

const KINDS_BY_REASON: ReadonlyMap<string, ErrorKind> = new Map<string, ErrorKind>([
  ["INVALID_FIELD", "InvalidField"],
  ["KEY_REUSED", "KeyReused"],
  ["LEASE_LOST", "LeaseLost"],
  ["OUTCOME_CONFLICT", "OutcomeConflict"],
  // Only Renew answers this. The attempt has nothing left to hold.
  ["ALREADY_FINISHED", "LeaseLost"],
  ["NEEDS_RESOLUTION", "NeedsResolution"],
  ["RECORD_NOT_FOUND", "RecordNotFound"],
  ["CREDENTIALS_MISSING", "Unauthenticated"],
  ["CREDENTIALS_INVALID", "Unauthenticated"],
  ["MERCHANT_FORBIDDEN", "PermissionDenied"],
  ["MERCHANT_RATE_LIMITED", "RateLimited"],
  ["OVERLOADED", "Unavailable"],
  ["DRAINING", "Unavailable"],
  ["STORE_UNAVAILABLE", "Unavailable"],
  ["SCHEMA_INCOMPATIBLE", "Unavailable"],
  ["COMMIT_UNKNOWN", "Unavailable"],
]);

// Without a reason, or with one that this client is too old for.
const KINDS_BY_CODE: ReadonlyMap<number, ErrorKind> = new Map<number, ErrorKind>([
  [Code.INVALID_ARGUMENT, "InvalidField"],
  [Code.RESOURCE_EXHAUSTED, "RequestTooLarge"],
  [Code.UNAUTHENTICATED, "Unauthenticated"],
  [Code.PERMISSION_DENIED, "PermissionDenied"],
  [Code.UNAVAILABLE, "Unavailable"],
  // Not by us: who reads this has asked first whether the caller is gone.
  [Code.CANCELLED, "Unavailable"],
  [Code.DEADLINE_EXCEEDED, "DeadlineExceeded"],
  [Code.NOT_FOUND, "RecordNotFound"],
  [Code.ABORTED, "LeaseLost"],
]);

// Complete or Fail: the service refused it and always will.
const REFUSED_FOR_GOOD: ReadonlySet<number> = new Set([
  Code.INVALID_ARGUMENT,
  Code.RESOURCE_EXHAUSTED,
  Code.FAILED_PRECONDITION,
  Code.ABORTED,
  Code.NOT_FOUND,
  Code.PERMISSION_DENIED,
]);

const SAYS_NOTHING_WAS_DONE: ReadonlySet<string> = new Set(
  Object.keys(ErrorReason).filter(
    (name) => !/^[0-9]|^(UNSPECIFIED|COMMIT_UNKNOWN|INTERNAL)$/.test(name),
  ),
);

const NO_EFFECT_BUT_UNREACHED: ReadonlySet<string> = new Set([
  "STORE_UNAVAILABLE",
  "OVERLOADED",
  "DRAINING",
]);

/** A call that failed, and what follows. */
export class CallFailure {
  readonly kind: ErrorKind;
  /** How long the server asks to be left alone, by its trailer or RetryInfo. */
  readonly retryAfterMs: number | undefined;
  /** The trailer says not to repeat the call at all. */
  readonly mustNotRetry: boolean;
  readonly #details: Details;

  constructor(
    readonly code: Code,
    readonly message: string,
    metadata?: Metadata,
  ) {
    this.#details = readDetails(metadata?.get(DETAILS_TRAILER)[0]);
    const pushbackMs = readPushback(metadata?.get(PUSHBACK_TRAILER) ?? []);
    this.mustNotRetry = pushbackMs === "never";
    if (pushbackMs === undefined) this.retryAfterMs = this.#details.retryAfterMs;
    else this.retryAfterMs = pushbackMs === "never" ? undefined : pushbackMs;
    this.kind = KINDS_BY_REASON.get(this.reason) ?? KINDS_BY_CODE.get(code) ?? "Internal";
  }

  get reason(): string {
    return this.#details.reason;
  }

  /**
   * Whether the call may have changed the record: docs/errors.md, "Did it happen?". A reason that
   * this client is too old for says nothing about it.
   */
  get mayHaveEffect(): boolean {
    if (this.reason !== "") return !SAYS_NOTHING_WAS_DONE.has(this.reason);
    return this.code !== Code.RESOURCE_EXHAUSTED;
  }

  /** Refused by a service that could not serve it, certainly without effect. */
  get wasUnserved(): boolean {
    return NO_EFFECT_BUT_UNREACHED.has(this.reason);
  }

  /**
   * Begin, Lookup, Renew: whether a repeat may help. UNAUTHENTICATED is the caller's to judge: once,
   * with fresh credentials.
   */
  get isWorthRepeating(): boolean {
    if (this.mustNotRetry) return false;
    return (
      this.code === Code.UNAVAILABLE ||
      this.code === Code.DEADLINE_EXCEEDED ||
      this.kind === "RateLimited"
    );
  }

  /** Complete, Fail: false if it is refused for good. UNAUTHENTICATED as above. */
  get isWorthRecordingAgain(): boolean {
    return !REFUSED_FOR_GOOD.has(this.code);
  }

  /** Complete, Fail: refused for its size, so that it is to be recorded without its body. */
  get isTooLarge(): boolean {
    if (this.code === Code.RESOURCE_EXHAUSTED) return true;
    return (
      this.code === Code.INVALID_ARGUMENT &&
      this.#details.violations.some(
        ({ field }) => field === "outcome.body" || field === "failure.outcome.body",
      )
    );
  }

  toError(kind: ErrorKind = this.kind): IdempotencyError {
    return makeError(kind, {
      message: this.message,
      reason: this.reason,
      grpcCode: this.code,
      violations: this.#details.violations,
      metadata: this.#details.metadata,
      retryAfterMs: this.retryAfterMs,
    });
  }
}

interface Details {
  reason: string;
  metadata: Record<string, string>;
  violations: FieldViolation[];
  retryAfterMs: number | undefined;
}

// What cannot be read is left out: a proxy may have put anything there.
function readDetails(bytes: Buffer | string | undefined): Details {
  const details: Details = { reason: "", metadata: {}, violations: [], retryAfterMs: undefined };
  if (bytes === undefined || typeof bytes === "string") return details;
  try {
    for (const any of fromBinary(StatusDetailsSchema, bytes).details) {
      try {
        readDetail(any.typeUrl.slice(any.typeUrl.lastIndexOf("/") + 1), any.value, details);
      } catch {
        continue;
      }
    }
  } catch {
    // Nothing of it, then.
  }
  return details;
}

function readDetail(type: string, bytes: Uint8Array, details: Details): void {
  if (type === "google.rpc.ErrorInfo") {
    const info = fromBinary(ErrorInfoSchema, bytes);
    if (info.domain !== DOMAIN) return;
    details.reason = info.reason;
    details.metadata = { ...info.metadata };
  } else if (type === "google.rpc.RetryInfo") {
    const delayMs = msOf(fromBinary(RetryInfoSchema, bytes).retryDelay);
    if (delayMs >= 0) details.retryAfterMs = delayMs;
  } else if (type === "google.rpc.BadRequest") {
    for (const { field, description } of fromBinary(BadRequestSchema, bytes).fieldViolations) {
      details.violations.push({ field, description });
    }
  }
}

// By gRPC's own rule: what is negative, too large or no number says not to repeat, and so do several.
function readPushback(values: readonly (Buffer | string)[]): number | "never" | undefined {
  const [value] = values;
  if (value === undefined) return undefined;
  if (values.length > 1 || typeof value !== "string" || !/^[0-9]+$/.test(value)) return "never";
  return Number(value) <= LONGEST_PUSHBACK_MS ? Number(value) : "never";
}
