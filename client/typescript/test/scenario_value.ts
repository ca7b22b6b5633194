/** Between the values of the scenarios' JSON and those of the client. */

import type {
  Attempt,
  Failure,
  Header,
  IdempotencyError,
  IdempotencyRecord,
  Outcome,
  Request,
  RunResult,
  Thrown,
} from "@idempotencyd/client";
import { WorkResult } from "@idempotencyd/client";

export type Json = Readonly<Record<string, unknown>>;

function bytesFrom(value: unknown): string | Buffer {
  if (typeof value === "string") return value;
  return Buffer.from((value as { base64: string }).base64, "base64");
}

function jsonOf(value: Uint8Array | string): unknown {
  const bytes = Buffer.from(value);
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : { base64: bytes.toString("base64") };
}

export function requestFrom(json: Json): Request {
  const operation = json["operation"] as string;
  if (json["payload"] !== undefined) {
    const payload = json["payload"] as Json;
    const contentType = payload["content_type"] as string;
    return { operation, payload: { data: bytesFrom(payload["data"]), contentType } };
  }
  const fingerprint = Buffer.from(json["fingerprint_base64"] as string, "base64");
  return { operation, fingerprint, fingerprintScheme: json["fingerprint_scheme"] as number };
}

export function outcomeFrom(json: Json): Outcome {
  const headers = json["headers"] as [string, unknown][] | undefined;
  const digest = json["body_sha256_hex"] as string | undefined;
  return {
    statusCode: json["status_code"] as number,
    headers: headers?.map(([name, value]): Header => ({ name, value: bytesFrom(value) })),
    contentType: json["content_type"] as string | undefined,
    body: json["body"] === undefined || json["body"] === null ? undefined : bytesFrom(json["body"]),
    responseId: json["response_id"] as string | undefined,
    bodyOmitted: json["body_omitted"] as boolean | undefined,
    bodySize: json["body_size"] as number | undefined,
    bodySha256: digest === undefined ? undefined : Buffer.from(digest, "hex"),
  };
}

export function failureFrom(json: Json): Failure {
  return {
    disposition: json["disposition"] as Failure["disposition"],
    code: json["code"] as string,
    message: json["message"] as string,
    outcome: json["outcome"] === undefined ? undefined : outcomeFrom(json["outcome"] as Json),
  };
}

export function workFrom(json: Json): WorkResult {
  const code = json["code"] as string;
  const message = json["message"] as string;
  const outcome = json["outcome"] === undefined ? undefined : outcomeFrom(json["outcome"] as Json);
  switch (json["kind"]) {
    case "completed":
      return WorkResult.completed(outcome ?? { statusCode: 0 });
    case "not_applied":
      return WorkResult.notApplied(code, message);
    case "final":
      return WorkResult.finalFailure(code, message, outcome);
    case "unknown":
      return WorkResult.unknown(code, message);
    default:
      throw new Error(`there is no work of kind ${String(json["kind"])}`);
  }
}

function outcomeJson(outcome: Outcome): Json {
  return {
    status_code: outcome.statusCode,
    headers: (outcome.headers ?? []).map(({ name, value }) => [name, jsonOf(value)]),
    content_type: outcome.contentType ?? "",
    body: outcome.body === undefined ? undefined : jsonOf(outcome.body),
    response_id: outcome.responseId ?? "",
    body_omitted: outcome.bodyOmitted ?? false,
    body_size: outcome.bodySize,
    body_sha256_hex: outcome.bodySha256 && Buffer.from(outcome.bodySha256).toString("hex"),
  };
}

function failureJson({ disposition, code, message, outcome }: Failure): Json {
  return { disposition, code, message, outcome: outcome && outcomeJson(outcome) };
}

function workJson(work: WorkResult): Json {
  if (work.kind === "completed") return { kind: "completed", outcome: outcomeJson(work.outcome) };
  const { disposition, code, message, outcome } = work.failure;
  return { kind: disposition, code, message, outcome: outcome && outcomeJson(outcome) };
}

export function errorJson(error: IdempotencyError): Json {
  return {
    kind: error.kind,
    reason: error.reason,
    violations: error.violations.map(({ field }) => field),
    metadata: error.metadata,
    still_recording: error.stillRecording,
    retry_after_ms: error.retryAfterMs,
  };
}

/** Of a result or of what the call rejected with. */
export function resultJson(result: RunResult | IdempotencyError): Json {
  if (result instanceof Error) {
    return {
      result: "Error",
      error: errorJson(result),
      work: result.work && workJson(result.work),
      threw: result.thrown !== undefined,
      retry_after_ms: result.retryAfterMs,
    };
  }
  // Most members are in some kinds of results only; what a kind has not is left out of the JSON.
  const all = result as Partial<Record<string, unknown>>;
  const outcome = all["outcome"] as Outcome | undefined;
  const failure = all["failure"] as Failure | undefined;
  return {
    result: result.kind,
    outcome: outcome && outcomeJson(outcome),
    failure: failure && failureJson(failure),
    recorded_without_body: all["recordedWithoutBody"],
    record_id: all["recordId"],
    attempt_number: all["attemptNumber"],
    start_time: all["startTime"],
    finish_time: all["finishTime"],
    retry_after_ms: all["retryAfterMs"],
    threw: (all["thrown"] as Thrown | undefined) !== undefined,
    work: all["work"] && workJson(all["work"] as WorkResult),
  };
}

export function attemptJson(attempt: Attempt): Json {
  const previous = attempt.previousAttempt;
  return {
    attempt_number: attempt.attemptNumber,
    unknown_attempts: attempt.unknownAttempts,
    repeated: attempt.repeated,
    unprotected: attempt.unprotected,
    downstream_key: attempt.downstreamKey,
    fencing_token: Number(attempt.fencingToken),
    record_id: attempt.recordId,
    on_lease_expiry: attempt.onLeaseExpiry,
    previous_attempt: previous && {
      attempt_number: previous.attemptNumber,
      disposition: previous.failure?.disposition,
    },
    stop_reason: attempt.stopReason,
  };
}

export function recordJson(record: IdempotencyRecord): Json {
  return {
    state: record.state,
    operation: record.operation,
    record_id: record.recordId,
    attempt_number: record.attemptNumber,
    unknown_attempts: record.unknownAttempts,
    on_lease_expiry: record.onLeaseExpiry,
    labels: record.labels,
    outcome: record.outcome && outcomeJson(record.outcome),
    failure: record.failure && failureJson(record.failure),
  };
}
