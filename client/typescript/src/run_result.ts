/** What a run tells its caller, and those who watch, when its work has ended. */

import { Check } from "./check.js";
import { callHook, type Core } from "./core.js";
import { outcomeMessageOf, outcomeOfMessage } from "./convert.js";
import { makeError, type IdempotencyError } from "./errors.js";
import type { Recorded } from "./recorder.js";
import type { Completed, Failed } from "./result.js";
import type { EndedWork } from "./thrown_work.js";
import type { Key, Outcome, RecordedOutcome } from "./types.js";

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

export function wholeOutcomeOf(outcome: Outcome): RecordedOutcome {
  return outcomeOfMessage(outcomeMessageOf(outcome, new Check(), "outcome"));
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
    warn("OUTCOME_NOT_RECORDED", `an outcome was not recorded: ${error.kind}`);
  } else {
    void callHook(hook, key, work.work, withWork(error, work));
  }
}

export function reportUnprotected(core: Core, key: Key, error: IdempotencyError): void {
  core.unprotectedRuns += 1;
  warn("UNPROTECTED", `work runs unprotected: ${error.reason === "" ? error.kind : error.reason}`);
  void callHook(core.options.hooks.onUnprotected, key, error);
}

// No key and no message: neither is known to be fit for a log.
function warn(code: string, text: string): void {
  process.emitWarning(text, { type: "IdempotencyWarning", code: `IDEMPOTENCY_${code}` });
}
