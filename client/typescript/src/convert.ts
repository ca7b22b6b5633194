/** Between the plain values of types.ts and the messages of the API. */

import { createHash } from "node:crypto";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  DurationSchema,
  timestampDate,
  type Duration,
  type Timestamp,
} from "@bufbuild/protobuf/wkt";

import type { Call } from "./call.js";
import { Check } from "./check.js";
import {
  BeginRequestSchema,
  type BeginRequest,
  type BeginResponse,
  type InProgress as InProgressMessage,
  type LookupResponse,
  type Replay,
  type Started,
} from "./gen/idempotency/v1/idempotency_service_pb.js";
import {
  FailureDisposition as DispositionCode,
  FailureSchema,
  LeaseExpiryAction,
  OutcomeSchema,
  RecordState as StateCode,
  type Failure as FailureMessage,
  type Outcome as OutcomeMessage,
  type PreviousAttempt as PreviousAttemptMessage,
} from "./gen/idempotency/v1/record_pb.js";
import type { IdempotencyRecord, InProgress, RecordState, Replayed } from "./result.js";
import type { Attempt } from "./runner.js";
import { bytesOf, cleanText } from "./text.js";
import type {
  Failure,
  FailureDisposition,
  OnLeaseExpiry,
  Outcome,
  PreviousAttempt,
  RecordedFailure,
  RecordedOutcome,
} from "./types.js";

const MAX_CODE_BYTES = 64;
const MAX_MESSAGE_BYTES = 1024;
// The last instant that a Date can hold, in either direction.
const LAST_DATE_MS = 8.64e15;

export function durationOf(ms: number): Duration {
  const seconds = Math.floor(ms / 1000);
  const nanos = Math.round((ms - seconds * 1000) * 1e6);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos });
}

export function msOf(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

export function dateOf(timestamp: Timestamp | undefined): Date {
  if (timestamp === undefined) return new Date(0);
  const ms = Number(timestamp.seconds) * 1000;
  // A Date of its own for what no Date can hold: an invalid one would throw when it is printed.
  return Math.abs(ms) < LAST_DATE_MS
    ? timestampDate(timestamp)
    : new Date(Math.sign(ms) * LAST_DATE_MS);
}

function optionalDateOf(timestamp: Timestamp | undefined): Date | undefined {
  return timestamp === undefined ? undefined : dateOf(timestamp);
}

export function beginRequestOf(call: Call, attemptId: string): BeginRequest {
  const { payload, fingerprint } = call.request;
  const message: MessageInitShape<typeof BeginRequestSchema> = {
    merchantId: call.key.merchantId,
    idempotencyKey: call.key.idempotencyKey,
    operation: call.request.operation,
    attemptId,
    request:
      payload === undefined
        ? { case: "fingerprint", value: fingerprint }
        : {
            case: "payload",
            value: { data: protoBytes(payload.data), contentType: payload.contentType },
          },
    fingerprintScheme: call.request.fingerprintScheme,
    onLeaseExpiry:
      call.onLeaseExpiry === "HOLD" ? LeaseExpiryAction.HOLD : LeaseExpiryAction.TAKE_OVER,
    labels: call.labels,
  };
  if (call.ttlMs !== undefined) message.ttl = durationOf(call.ttlMs);
  if (call.leaseDurationMs !== undefined) message.leaseDuration = durationOf(call.leaseDurationMs);
  return create(BeginRequestSchema, message);
}

/** `path` is the outcome's in the request, for what is wrong with it. */
export function outcomeMessageOf(outcome: Outcome, check: Check, path: string): OutcomeMessage {
  const message = create(OutcomeSchema);
  if (!check.object(path, outcome)) return message;
  message.statusCode = check.int32(`${path}.status_code`, outcome.statusCode);
  const headers: unknown = outcome.headers ?? [];
  if (!Array.isArray(headers)) check.add(`${path}.headers`, "must be an array");
  for (const [index, header] of (Array.isArray(headers) ? headers : []).entries()) {
    const field = `${path}.headers[${String(index)}]`;
    if (!check.object(field, header)) continue;
    const { name, value } = header as { name?: unknown; value?: unknown };
    message.headers.push({
      $typeName: "idempotency.v1.Header",
      name: check.text(`${field}.name`, name),
      value: protoBytes(check.bytes(`${field}.value`, value)),
    });
  }
  message.contentType = check.optionalText(`${path}.content_type`, outcome.contentType);
  if (outcome.body !== undefined) {
    message.body = protoBytes(check.bytes(`${path}.body`, outcome.body));
  }
  message.responseId = check.optionalText(`${path}.response_id`, outcome.responseId);
  message.bodyOmitted = outcome.bodyOmitted === true;
  // An outcome that came from a Lookup has both beside its body; recorded they are refused there.
  if (message.bodyOmitted) {
    if (Number.isSafeInteger(outcome.bodySize)) message.bodySize = BigInt(outcome.bodySize ?? 0);
    message.bodySha256 = protoBytes(outcome.bodySha256 ?? "");
  }
  return message;
}

/** With nothing left out, and what is no outcome's as if it were not there. */
export function wholeOutcomeOf(outcome: Outcome): RecordedOutcome {
  return outcomeOfMessage(outcomeMessageOf(outcome, new Check(), "outcome"));
}

/**
 * As it is recorded but for its outcome: its words made to fit, and a disposition that is none taken
 * for unknown.
 */
export function fittedFailureOf({ disposition, code, message, outcome }: Failure): Failure {
  const isKnown = disposition === "not_applied" || disposition === "final";
  return {
    disposition: isKnown ? disposition : "unknown",
    code: cleanText(wordsOf(code), MAX_CODE_BYTES),
    message: cleanText(wordsOf(message), MAX_MESSAGE_BYTES),
    outcome,
  };
}

/** Of a fitted failure. What is wrong with its outcome is told to `check`. */
export function failureMessageOf(failure: Failure, check: Check): FailureMessage {
  const message = create(FailureSchema, {
    disposition: dispositionCodeOf(failure.disposition),
    code: failure.code,
    message: failure.message,
  });
  if (failure.outcome !== undefined) {
    message.outcome = outcomeMessageOf(failure.outcome, check, "failure.outcome");
  }
  return message;
}

function wordsOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Replaces the body by its size and digest. Returns whether there was one. */
export function omitBody(outcome: OutcomeMessage | undefined): boolean {
  if (outcome?.body === undefined) return false;
  outcome.bodySize = BigInt(outcome.body.length);
  outcome.bodySha256 = new Uint8Array(createHash("sha256").update(outcome.body).digest());
  outcome.bodyOmitted = true;
  delete outcome.body;
  return true;
}

function protoBytes(value: Uint8Array | string): Uint8Array<ArrayBuffer> {
  // A copy: the caller may use its buffer for something else while the record is still repeated.
  return new Uint8Array(bytesOf(value));
}

export function outcomeOfMessage(message: OutcomeMessage): RecordedOutcome {
  return {
    statusCode: message.statusCode,
    headers: message.headers.map(({ name, value }) => ({ name, value })),
    contentType: message.contentType,
    body: message.body,
    responseId: message.responseId,
    bodyOmitted: message.bodyOmitted,
    bodySize: message.bodySize === undefined ? undefined : Number(message.bodySize),
    bodySha256: message.bodySha256.length === 0 ? undefined : message.bodySha256,
  };
}

export function failureOfMessage(message: FailureMessage): RecordedFailure {
  return {
    disposition: dispositionOf(message.disposition),
    code: message.code,
    message: message.message,
    outcome: message.outcome === undefined ? undefined : outcomeOfMessage(message.outcome),
  };
}

function dispositionCodeOf(disposition: FailureDisposition): DispositionCode {
  switch (disposition) {
    case "not_applied":
      return DispositionCode.NOT_APPLIED;
    case "final":
      return DispositionCode.FINAL;
    // What is no disposition is not known to be one of the others.
    default:
      return DispositionCode.UNKNOWN;
  }
}

function dispositionOf(code: DispositionCode): FailureDisposition {
  switch (code) {
    case DispositionCode.NOT_APPLIED:
      return "not_applied";
    case DispositionCode.FINAL:
      return "final";
    default:
      return "unknown";
  }
}

// What this client is too old for counts as the strict one.
function onLeaseExpiryOf(action: LeaseExpiryAction): OnLeaseExpiry {
  return action === LeaseExpiryAction.TAKE_OVER ? "TAKE_OVER" : "HOLD";
}

function previousAttemptOf(
  message: PreviousAttemptMessage | undefined,
): PreviousAttempt | undefined {
  if (message === undefined) return undefined;
  return {
    attemptNumber: message.attemptNumber,
    startTime: dateOf(message.startTime),
    leaseExpireTime: dateOf(message.leaseExpireTime),
    failure: message.failure === undefined ? undefined : failureOfMessage(message.failure),
  };
}

/** All of an Attempt that does not change. */
export type AttemptFields = Omit<
  Attempt,
  "signal" | "stopReason" | "leaseRemainingMs" | "downstreamKeyFor"
>;

export function attemptFieldsOf(response: BeginResponse, started: Started): AttemptFields {
  return {
    recordId: response.recordId,
    attemptNumber: started.attemptNumber,
    fencingToken: started.fencingToken,
    downstreamKey: started.downstreamKey,
    unknownAttempts: started.unknownAttempts,
    previousAttempt: previousAttemptOf(started.previousAttempt),
    repeated: started.repeated,
    unprotected: false,
    onLeaseExpiry: onLeaseExpiryOf(response.onLeaseExpiry),
  };
}

/** Undefined if it has no answer. */
export function replayedOf(response: BeginResponse, replay: Replay): Replayed | undefined {
  const fields = {
    kind: "Replayed" as const,
    recordId: response.recordId,
    attemptNumber: replay.attemptNumber,
    startTime: dateOf(replay.startTime),
    finishTime: dateOf(replay.finishTime),
  };
  switch (replay.answer.case) {
    case "outcome":
      return { ...fields, outcome: outcomeOfMessage(replay.answer.value) };
    case "failure":
      return { ...fields, failure: failureOfMessage(replay.answer.value) };
    default:
      return undefined;
  }
}

export function inProgressOf(response: BeginResponse, message: InProgressMessage): InProgress {
  return {
    kind: "InProgress",
    retryAfterMs: Math.max(Math.ceil(msOf(message.retryAfter)), 0),
    leaseRemainingMs: Math.max(Math.floor(msOf(message.leaseRemaining)), 0),
    recordId: response.recordId,
    attemptNumber: message.attemptNumber,
    startTime: dateOf(message.startTime),
  };
}

const STATES = new Map<StateCode, RecordState>([
  [StateCode.COMPLETED, "COMPLETED"],
  [StateCode.FAILED, "FAILED"],
  [StateCode.RELEASED, "RELEASED"],
  [StateCode.ABANDONED, "ABANDONED"],
]);

export function recordOf(response: LookupResponse): IdempotencyRecord {
  return {
    recordId: response.recordId,
    operation: response.operation,
    state: STATES.get(response.state) ?? "IN_PROGRESS",
    expired: response.expired,
    createTime: dateOf(response.createTime),
    startTime: dateOf(response.startTime),
    finishTime: optionalDateOf(response.finishTime),
    expireTime: optionalDateOf(response.expireTime),
    onLeaseExpiry: onLeaseExpiryOf(response.onLeaseExpiry),
    attemptNumber: response.attemptNumber,
    unknownAttempts: response.unknownAttempts,
    fencingToken: response.fencingToken,
    downstreamKey: response.downstreamKey,
    labels: { ...response.labels },
    outcome: response.outcome === undefined ? undefined : outcomeOfMessage(response.outcome),
    failure: response.failure === undefined ? undefined : failureOfMessage(response.failure),
    previousAttempt: previousAttemptOf(response.previousAttempt),
  };
}
