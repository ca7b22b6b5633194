/** What a run tells its caller, and those who watch, when its work has ended. */

import { callHook, type Core } from "./core.js";
import { wholeOutcomeOf } from "./convert.js";
import { makeError, type IdempotencyError } from "./errors.js";
import type { Recorded } from "./recorder.js";
import type { Completed, Failed } from "./result.js";
import type { EndedWork } from "./thrown_work.js";
import type { Key } from "./types.js";

/**
 * Completed or Failed with what `fn` said, whether or not the service could record its body. Shared
 * with the FakeRunner.
 */
export function resultOf(
  { work, thrown }: EndedWork,
  recordId: string,
  attemptNumber: number,
  { finishTime, withoutBody: recordedWithoutBody }: Recorded,
): Completed | Failed {
  const fields = { recordedWithoutBody, recordId, attemptNumber, finishTime };
  if (work.kind === "completed") {
    return { kind: "Completed", outcome: wholeOutcomeOf(work.outcome), ...fields };
  }
  const { disposition, code, message, outcome } = work.failure;
  const failure = { disposition, code, message, outcome: outcome && wholeOutcomeOf(outcome) };
  return { kind: "Failed", failure, thrown, ...fields };
}

/** The same error, after `fn` ran. */
export function withWork(error: IdempotencyError, ended: EndedWork): IdempotencyError {
  const { message, reason, grpcCode, violations, metadata, retryAfterMs } = error;
  return makeError(error.kind, {
    ...{ message, reason, grpcCode, violations, metadata, retryAfterMs },
    ...ended,
  });
}

export function stillRecordingError(ended: EndedWork): IdempotencyError {
  return makeError("OutcomeNotRecorded", {
    message: "the caller has left; what the work came to is still being recorded",
    stillRecording: true,
    ...ended,
  });
}

/** Money may have moved without a record: somebody is told, always. */
export function reportLost(core: Core, key: Key, work: EndedWork, error: IdempotencyError): void {
  const hook = core.options.hooks.onOutcomeNotRecorded;
  if (hook === undefined) {
    warn("OUTCOME_NOT_RECORDED", "an outcome was not recorded", key, error);
  } else {
    void callHook(hook, key, work.work, withWork(error, work));
  }
}

export function reportUnprotected(core: Core, key: Key, error: IdempotencyError): void {
  core.unprotectedRuns += 1;
  warn("UNPROTECTED", "work runs without the service", key, error);
  void callHook(core.options.hooks.onUnprotected, key, error);
}

// Merchant and key, as in the service's own log; JSON, so that a key cannot forge a line. Not the
// error's words, which are not known to be fit for a log.
function warn(code: string, text: string, key: Key, { kind, reason }: IdempotencyError): void {
  const { merchantId, idempotencyKey } = key;
  const facts = JSON.stringify({ merchantId, idempotencyKey, kind, reason });
  process.emitWarning(`${text}: ${facts}`, {
    type: "IdempotencyWarning",
    code: `IDEMPOTENCY_${code}`,
  });
}
