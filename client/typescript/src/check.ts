/**
 * What this client can see of bad arguments, before anything is sent: wrong types, text that UTF-8
 * cannot hold, spans that no message can hold. All other bounds are the server's to judge, and it
 * names the same fields.
 */

import { types } from "node:util";

import { InvalidFieldError, type FieldViolation } from "./errors.js";
import { isWellFormed } from "./text.js";

// google.protobuf.Duration's longest, 10,000 years.
const LONGEST_SPAN_MS = 315_576_000_000_000;
const INT32_MAX = 2 ** 31 - 1;
const INT32_MIN = -(2 ** 31);

/** Gathers what is wrong, so that a caller is told all of it at once. */
export class Check {
  readonly #violations: FieldViolation[] = [];

  add(field: string, description: string): void {
    this.#violations.push({ field, description });
  }

  get violations(): readonly FieldViolation[] {
    return this.#violations;
  }

  /** @throws InvalidFieldError if anything was wrong */
  end(): void {
    const error = this.error();
    if (error !== undefined) throw error;
  }

  error(): InvalidFieldError | undefined {
    const first = this.#violations[0];
    if (first === undefined) return undefined;
    const more = this.#violations.length - 1;
    const message = `${first.field}: ${first.description}${more > 0 ? ` (and ${String(more)} more)` : ""}`;
    return new InvalidFieldError({ message, violations: this.#violations });
  }

  /** An object, with these members at most: a misspelt option must not be passed over in silence. */
  object(field: string, value: unknown, members?: readonly string[]): value is object {
    if (typeof value !== "object" || value === null) {
      this.add(field, "must be an object");
      return false;
    }
    for (const name of members === undefined ? [] : Object.keys(value)) {
      if (members?.includes(name) === false) this.add(name, `is no member of ${field}`);
    }
    return true;
  }

  text(field: string, value: unknown): string {
    if (typeof value !== "string") this.add(field, "must be a string");
    else if (!isWellFormed(value)) this.add(field, "must not have a lone surrogate");
    else return value;
    return "";
  }

  optionalText(field: string, value: unknown): string {
    return value === undefined ? "" : this.text(field, value);
  }

  bytes(field: string, value: unknown): Uint8Array | string {
    if (isBytes(value)) return value;
    if (typeof value === "string") return this.text(field, value);
    this.add(field, "must be a string or a Uint8Array");
    return "";
  }

  int32(field: string, value: unknown): number {
    if (typeof value === "number" && Number.isInteger(value)) {
      if (value >= INT32_MIN && value <= INT32_MAX) return value;
    }
    this.add(field, "must be an integer of 32 bits");
    return 0;
  }

  /** Milliseconds from `least` on; parts of one are rounded up. */
  spanMs(field: string, value: unknown, least: number): number {
    if (typeof value !== "number" || Number.isNaN(value)) {
      this.add(field, "must be a number of milliseconds");
    } else if (value < least) {
      this.add(field, least === 0 ? "must not be negative" : "must be more than 0");
    } else if (value > LONGEST_SPAN_MS) {
      this.add(field, "must be at most 10,000 years");
    } else {
      return Math.ceil(value);
    }
    return least;
  }

  optionalSpanMs(field: string, value: unknown, least: number): number | undefined {
    return value === undefined ? undefined : this.spanMs(field, value, least);
  }

  oneOf<T extends string>(field: string, value: unknown, words: readonly T[]): T | undefined {
    const found = words.find((word) => word === value);
    if (found === undefined) this.add(field, `must be ${words.join(" or ")}`);
    return found;
  }

  optionalFunction(field: string, value: unknown): void {
    if (value !== undefined && typeof value !== "function") this.add(field, "must be a function");
  }

  optionalSignal(field: string, value: unknown): AbortSignal | undefined {
    if (value === undefined || isSignal(value)) return value;
    this.add(field, "must be an AbortSignal");
    return undefined;
  }
}

/** Also for those of another realm, such as the sandbox of a test runner. */
export function isBytes(value: unknown): value is Uint8Array {
  return types.isUint8Array(value);
}

// By what is used of it: a polyfill's, or one of another realm, is as good.
function isSignal(value: unknown): value is AbortSignal {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AbortSignal>).aborted === "boolean" &&
    typeof (value as Partial<AbortSignal>).addEventListener === "function" &&
    typeof (value as Partial<AbortSignal>).removeEventListener === "function"
  );
}
