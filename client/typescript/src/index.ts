/**
 * Client of idempotencyd: a payment is done once, however often its request arrives.
 *
 * @packageDocumentation
 */

/** For `ClientOptions.credentials`: @grpc/grpc-js's own. */
export { credentials } from "@grpc/grpc-js";
export { IdempotencyClient, type ClientOptions } from "./client.js";
export type { Hooks } from "./core.js";
export { downstreamKeyFor, type DownstreamKeyShape } from "./downstream_key.js";
export {
  CancelledError,
  DeadlineExceededError,
  IdempotencyError,
  InternalError,
  InvalidFieldError,
  KeyReusedError,
  LeaseLostError,
  makeError,
  NeedsResolutionError,
  OutcomeConflictError,
  OutcomeNotRecordedError,
  PermissionDeniedError,
  RateLimitedError,
  RecordNotFoundError,
  RequestTooLargeError,
  UnauthenticatedError,
  UnavailableError,
  type ErrorDetails,
  type ErrorKind,
  type FieldViolation,
} from "./errors.js";
export { httpAnswer, type HttpAnswer } from "./http_answer.js";
export { businessKey, randomRequestId } from "./key.js";
export {
  outcomeOf,
  type Completed,
  type Failed,
  type IdempotencyRecord,
  type InProgress,
  type RecordState,
  type Replayed,
  type RunResult,
  type Unprotected,
} from "./result.js";
export {
  StopRequest,
  type Attempt,
  type LookupOptions,
  type Runner,
  type RunOptions,
  type StopReason,
  type Work,
} from "./runner.js";
export {
  Key,
  WorkResult,
  type Failure,
  type FailureDisposition,
  type FingerprintRequest,
  type Header,
  type OnLeaseExpiry,
  type Outcome,
  type Payload,
  type PayloadRequest,
  type PreviousAttempt,
  type RecordedFailure,
  type RecordedHeader,
  type RecordedOutcome,
  type Request,
  type Thrown,
} from "./types.js";
export type { Rpc } from "./wire.js";
