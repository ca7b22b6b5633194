/**
 * What goes into a protected operation and what comes out of it, as plain values.
 *
 * All bounds are the server's: a value outside them is not cut to fit but refused, and reported as
 * `InvalidField` with the field's name. Lengths are bytes of UTF-8. Printable ASCII means 0x20 to
 * 0x7E. Spans are milliseconds and end in `Ms`; instants are `Date` and end in `Time`.
 */

import { businessKey } from "./key.js";

const BUSINESS_KEY_TTL_MS = 30 * 24 * 3600 * 1000;

/**
 * Which operation this is: the caller's name for it, unique within the merchant. The same for every
 * retry of the operation, and for nothing else.
 */
export interface Key {
  /** 1 to 64 of `A-Z a-z 0-9 . _ : -`. */
  readonly merchantId: string;
  /** 1 to 255 of printable ASCII, compared byte for byte. */
  readonly idempotencyKey: string;
  /** How long the record answers, unless `RunOptions.ttlMs` says it. Default: the server's 24 h. */
  readonly ttlMs?: number | undefined;
}

export const Key = {
  /**
   * A key made of what the operation is about, with a ttl of 30 days, because such a key never
   * changes while a day's retention ends. See {@link businessKey} for the bounds.
   *
   * @throws InvalidFieldError naming `kind`, `parts` or `parts[i]`
   */
  business(merchantId: string, kind: string, ...parts: string[]): Key {
    return {
      merchantId,
      idempotencyKey: businessKey(kind, ...parts),
      ttlMs: BUSINESS_KEY_TTL_MS,
    };
  },
} as const;

/**
 * The request's body, up to 1 MiB. The server hashes it and does not keep it. JSON is compared as a
 * document: white space, member order and escapes do not matter, numbers keep their exact value.
 */
export interface Payload {
  /** Text is sent as UTF-8. */
  readonly data: Uint8Array | string;
  /**
   * `application/json` and types ending in `+json` are compared as JSON, all others byte for byte.
   * Default empty.
   */
  readonly contentType?: string | undefined;
}

/**
 * What is asked for. A second call with the same key and another request is refused (`KeyReused`).
 */
export type Request = PayloadRequest | FingerprintRequest;

export interface PayloadRequest {
  /** What is done, a constant text such as `"POST /orders"`: 1 to 128 of printable ASCII. */
  readonly operation: string;
  readonly payload: Payload;
  readonly fingerprint?: undefined;
  readonly fingerprintScheme?: undefined;
}

/** Instead of the body: a SHA-256 that all callers of the key make in the same way. */
export interface FingerprintRequest {
  /** As in {@link PayloadRequest}. */
  readonly operation: string;
  /** Exactly 32 bytes, not hexadecimal. */
  readonly fingerprint: Uint8Array;
  /**
   * 0, the default: the callers' own way. 1: the server's canonical form, made by an implementation
   * that passes its vectors.
   */
  readonly fingerprintScheme?: number | undefined;
  readonly payload?: undefined;
}

/**
 * What happens when a process dies, or hangs, between the start of the work and its record. There
 * is no default: it depends on the partner.
 *
 * - `TAKE_OVER`: the next call does the work again and is told that an attempt ended unknown
 *   (`Attempt.unknownAttempts`). For partners that are idempotent by the downstream key, or can be
 *   asked.
 * - `HOLD`: nobody does the work again (`NeedsResolution`) until a person or the reconciliation has
 *   found out what happened. For partners that would pay twice.
 */
export type OnLeaseExpiry = "TAKE_OVER" | "HOLD";

export interface Header {
  /** 1 to 128 token characters of RFC 9110. */
  readonly name: string;
  /** Any bytes; text is sent as UTF-8. */
  readonly value: Uint8Array | string;
}

/** The operation's answer. Every later call with the key gets exactly this, byte for byte. */
export interface Outcome {
  /** In the caller's own protocol, not interpreted: any 32-bit integer. */
  readonly statusCode: number;
  /** At most 64, and 16 KiB of names and values together. Order and repeats are kept. */
  readonly headers?: readonly Header[] | undefined;
  /** At most 255 of printable ASCII. Default empty. */
  readonly contentType?: string | undefined;
  /**
   * Absent and empty are different. Text is sent as UTF-8. 256 KiB unless the server is set
   * otherwise; a longer one is recorded by its size and digest alone, see `bodyOmitted`.
   */
  readonly body?: Uint8Array | string | undefined;
  /** The caller's own id of the answer, such as the payment's: at most 255 of printable ASCII. */
  readonly responseId?: string | undefined;
  /**
   * True: there was a body, it was too large to be recorded, and only its size in bytes and its
   * SHA-256 (32 bytes) are known. Only in answers, normally.
   */
  readonly bodyOmitted?: boolean | undefined;
  readonly bodySize?: number | undefined;
  readonly bodySha256?: Uint8Array | undefined;
}

export interface RecordedHeader extends Header {
  readonly value: Uint8Array;
}

/** An {@link Outcome} in answers: nothing left out, all text that may be no text as bytes. */
export interface RecordedOutcome extends Outcome {
  readonly headers: readonly RecordedHeader[];
  readonly contentType: string;
  readonly body: Uint8Array | undefined;
  readonly responseId: string;
  readonly bodyOmitted: boolean;
  /** In bytes. Lookup has it whenever there was a body. */
  readonly bodySize: number | undefined;
  readonly bodySha256: Uint8Array | undefined;
}

/**
 * What is known about an attempt that did not succeed.
 *
 * - `not_applied`: nothing happened, for certain. The key is free for the next call.
 * - `final`: the operation failed for good; the failure is the answer, and is replayed like one.
 * - `unknown`: it may have happened. The default for everything not known to be one of the others.
 */
export type FailureDisposition = "not_applied" | "final" | "unknown";

export interface Failure {
  readonly disposition: FailureDisposition;
  /**
   * The caller's own code, and words for people. Cut by this library to 64 and 1,024 bytes, because
   * a failure must be recorded however long its words are. No secrets: support staff read them.
   */
  readonly code: string;
  readonly message: string;
  /** The answer that goes with it, if there is one. */
  readonly outcome?: Outcome | undefined;
}

export interface RecordedFailure extends Failure {
  readonly outcome: RecordedOutcome | undefined;
}

/** What the work came to: what `fn` returns. */
export type WorkResult =
  | { readonly kind: "completed"; readonly outcome: Outcome; readonly failure?: undefined }
  | { readonly kind: "failed"; readonly failure: Failure; readonly outcome?: undefined };

function failed(
  disposition: FailureDisposition,
  code: string,
  message: string,
  outcome?: Outcome,
): WorkResult {
  return { kind: "failed", failure: { disposition, code, message, outcome } };
}

export const WorkResult = {
  /** Done. `outcome` is the answer from now on. */
  completed(outcome: Outcome): WorkResult {
    return { kind: "completed", outcome };
  },
  /**
   * Only with proof that nothing happened and nothing will: the request was never sent, or the
   * partner refused it. A time-out, a reset connection or a 5xx is no proof.
   */
  notApplied(code: string, message: string): WorkResult {
    return failed("not_applied", code, message);
  },
  /** Failed for good: card declined, account closed. Every later call gets this answer. */
  finalFailure(code: string, message: string, outcome?: Outcome): WorkResult {
    return failed("final", code, message, outcome);
  },
  /** Not known. Always allowed, never wrong. */
  unknown(code: string, message: string): WorkResult {
    return failed("unknown", code, message);
  },
} as const;

/** How the attempt before this one ended. */
export interface PreviousAttempt {
  readonly attemptNumber: number;
  readonly startTime: Date;
  readonly leaseExpireTime: Date;
  /** What it reported: not applied or unknown. Absent: its lease ran out, nothing is known. */
  readonly failure: RecordedFailure | undefined;
}

/** What `fn` threw or rejected with; any value, also `undefined`. */
export interface Thrown {
  readonly value: unknown;
}
