/** What work comes to that did not return a result. */

import { types } from "node:util";

import { fittedFailureOf } from "./convert.js";
import { WorkResult, type FailureDisposition, type Thrown } from "./types.js";

// What the error says stays with the caller: it may hold card numbers.
const CODE = "EXCEPTION";

/** By `classify`; unknown without it, when it throws, and when it gives another value. */
export function resultOfThrown(
  thrown: Thrown,
  classify: ((error: unknown) => FailureDisposition) | undefined,
): WorkResult {
  switch (askQuietly(thrown, classify)) {
    case "not_applied":
      return WorkResult.notApplied(CODE, "the work threw, by its own account before any effect");
    case "final":
      return WorkResult.finalFailure(CODE, "the work threw, by its own account for good");
    default:
      return WorkResult.unknown(CODE, "the work threw, and whether it had an effect is not known");
  }
}

function askQuietly(
  thrown: Thrown,
  classify: ((error: unknown) => FailureDisposition) | undefined,
): unknown {
  try {
    const word: unknown = classify?.(thrown.value);
    // One that is async by mistake: its promise is no answer, and must not end the process.
    if (types.isPromise(word)) word.catch(() => undefined);
    return word;
  } catch {
    return "unknown"; // It does not know either.
  }
}

/** Whether `fn` kept its word; in JavaScript a `return` is easily forgotten. */
export function isWorkResult(value: unknown): value is WorkResult {
  if (typeof value !== "object" || value === null) return false;
  const { kind, outcome, failure } = value as Partial<
    Record<"kind" | "outcome" | "failure", unknown>
  >;
  if (kind === "completed") return typeof outcome === "object" && outcome !== null;
  return kind === "failed" && typeof failure === "object" && failure !== null;
}

// The first answer and its replays are to say the same.
function fittedWorkOf(work: WorkResult): WorkResult {
  if (work.kind === "completed") return work;
  return { kind: "failed", failure: fittedFailureOf(work.failure) };
}

export interface EndedWork {
  readonly work: WorkResult;
  readonly thrown: Thrown | undefined;
}

/** Runs `body` to its end, whatever that is. Never rejects. A failure's words are those recorded. */
export async function endOfWork(
  body: () => WorkResult | Promise<WorkResult>,
  classify: ((error: unknown) => FailureDisposition) | undefined,
): Promise<EndedWork> {
  try {
    const value: unknown = await body();
    if (isWorkResult(value)) return { work: fittedWorkOf(value), thrown: undefined };
  } catch (error) {
    const thrown = { value: error };
    return { work: resultOfThrown(thrown, classify), thrown };
  }
  // No use in asking classify: it was not the work that threw.
  const thrown = { value: new TypeError("fn did not return a WorkResult") };
  return { work: resultOfThrown(thrown, undefined), thrown };
}
