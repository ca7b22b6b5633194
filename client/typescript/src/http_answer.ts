/** What a service that speaks HTTP answers. */

import { IdempotencyError, type ErrorKind } from "./errors.js";
import type { RunResult } from "./result.js";
import { bytesOf } from "./text.js";
import type { Failure, Header, Outcome } from "./types.js";

export interface HttpAnswer {
  /** 200 to 599. */
  readonly status: number;
  /**
   * In order; names may repeat. Values have a character for each byte, as node:http wants them:
   * `response.writeHead(answer.status, answer.headers.flat())`.
   */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

const MESSAGES: Readonly<Record<string, string>> = {
  BAD_STATUS_CODE: "The recorded status code is none that HTTP can carry.",
  NOT_APPLIED: "Nothing was done. Try again with the same key.",
  OUTCOME_UNKNOWN: "Whether this was done is not known. Try again with the same key.",
  IN_PROGRESS: "This is being done. Try again with the same key.",
};

// What each error answers when `fn` did not run.
const ERRORS: Readonly<Record<ErrorKind, readonly [status: number, message: string]>> = {
  InvalidField: [400, "The request is invalid."],
  RequestTooLarge: [413, "The request is too large."],
  KeyReused: [422, "The key was used for another request."],
  LeaseLost: [409, "This came too late. Try again with the same key."],
  OutcomeConflict: [409, "Another outcome is recorded."],
  NeedsResolution: [409, "Whether this was done is not known, and has to be found out first."],
  RecordNotFound: [404, "There is no record of this key."],
  RateLimited: [429, "Too many requests. Try again with the same key."],
  Unavailable: [503, "Nothing was done. Try again with the same key."],
  DeadlineExceeded: [504, "There was no answer in time. Try again with the same key."],
  Cancelled: [499, "The caller has left."],
  OutcomeNotRecorded: [
    500,
    "This ended, and its outcome is not recorded. Try again with the same key.",
  ],
  Unauthenticated: [500, "The service is not set up right."],
  PermissionDenied: [500, "The service is not set up right."],
  Internal: [500, "The service failed. Try again with the same key."],
};

/**
 * Status, headers and body for a result, or for what `runOnce` rejected with. Nothing internal goes
 * out: of errors only constant words, of failures the caller's own code and message, and only if
 * they are final. What is no error of this library answers as `Internal`.
 */
export function httpAnswer(result: RunResult | IdempotencyError | Error): HttpAnswer {
  if (result instanceof Error) return answerOfError(result);
  switch (result.kind) {
    case "Completed":
      return answerOfOutcome(result.outcome, []);
    case "Replayed": {
      const replayed: [string, string][] = [["Idempotent-Replayed", "true"]];
      return result.outcome === undefined
        ? answerOfFailure(result.failure, replayed)
        : answerOfOutcome(result.outcome, replayed);
    }
    case "InProgress":
      return jsonAnswer(409, "IN_PROGRESS", [["Retry-After", retryAfter(result.retryAfterMs)]]);
    case "Failed":
      return answerOfFailure(result.failure, []);
    case "Unprotected":
      return result.work.kind === "completed"
        ? answerOfOutcome(result.work.outcome, [])
        : answerOfFailure(result.work.failure, []);
    default:
      return answerOfError(new Error("what was thrown is no result, and no error either"));
  }
}

function answerOfOutcome(outcome: Outcome, added: readonly [string, string][]): HttpAnswer {
  const status = outcome.statusCode;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    return jsonAnswer(500, "BAD_STATUS_CODE", []);
  }
  const headers = (outcome.headers ?? []).map(httpHeader);
  const hasType = headers.some(([name]) => name.toLowerCase() === "content-type");
  const contentType = outcome.contentType ?? "";
  if (contentType !== "" && !hasType) headers.push(["Content-Type", contentType]);
  headers.push(...added);
  const omitted = outcome.bodyOmitted === true;
  if (omitted) headers.push(["Idempotent-Body-Omitted", "true"]);
  return { status, headers, body: omitted ? Buffer.alloc(0) : bytesOf(outcome.body ?? "") };
}

function httpHeader(header: Header): [string, string] {
  return [header.name, bytesOf(header.value).toString("latin1")];
}

function answerOfFailure(failure: Failure, added: readonly [string, string][]): HttpAnswer {
  switch (failure.disposition) {
    case "final":
      return failure.outcome === undefined
        ? jsonAnswer(422, failure.code, added, failure.message)
        : answerOfOutcome(failure.outcome, added);
    case "not_applied":
      return jsonAnswer(503, "NOT_APPLIED", [["Retry-After", "1"], ...added]);
    // Also for what is none of the three.
    default:
      return jsonAnswer(502, "OUTCOME_UNKNOWN", added);
  }
}

function answerOfError(error: Error): HttpAnswer {
  const known = error instanceof IdempotencyError ? (error as IdempotencyError) : undefined;
  const kind = known?.kind ?? "Internal";
  const [status, message] = ERRORS[kind];
  const code = kind.replace(/(?<=.)[A-Z]/g, "_$&").toUpperCase();
  if (known?.work !== undefined) {
    return jsonAnswer(known.stillRecording ? 504 : 500, code, [], message);
  }
  const waits = kind === "RateLimited" || kind === "Unavailable";
  const added: [string, string][] = waits ? [["Retry-After", retryAfter(known?.retryAfterMs)]] : [];
  return jsonAnswer(status, code, added, message);
}

function jsonAnswer(
  status: number,
  code: string,
  added: readonly [string, string][],
  message = MESSAGES[code] ?? "",
): HttpAnswer {
  return {
    status,
    headers: [["Content-Type", "application/json"], ...added],
    // JSON.stringify escapes what RFC 8785 does, in the same way. A lone surrogate, which it would
    // write as an escape, is no text; it becomes the replacement character.
    body: Buffer.from(JSON.stringify({ status, code: toText(code), message: toText(message) })),
  };
}

function toText(text: unknown): string {
  return typeof text === "string" ? Buffer.from(text, "utf8").toString("utf8") : "";
}

/** Whole seconds, rounded up, at least 1. */
function retryAfter(ms: number | undefined): string {
  const seconds = Math.min(Math.ceil((ms ?? 0) / 1000), Number.MAX_SAFE_INTEGER);
  return String(seconds > 1 ? seconds : 1);
}
