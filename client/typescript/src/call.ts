/** The arguments of a `runOnce`, checked, with their defaults. */

import { Check, isBytes } from "./check.js";
import type { LookupOptions, RunOptions, Work } from "./runner.js";
import type { FailureDisposition, Key, OnLeaseExpiry, Request } from "./types.js";

export interface CheckedRequest {
  readonly operation: string;
  readonly payload:
    { readonly data: Uint8Array | string; readonly contentType: string } | undefined;
  readonly fingerprint: Uint8Array;
  readonly fingerprintScheme: number;
}

export interface Call {
  readonly key: Key;
  readonly request: CheckedRequest;
  readonly onLeaseExpiry: OnLeaseExpiry;
  readonly fn: Work;
  readonly ttlMs: number | undefined;
  readonly leaseDurationMs: number | undefined;
  readonly waitTimeoutMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly maxDurationMs: number;
  readonly startTimeoutMs: number;
  readonly mayRunUnprotected: boolean;
  readonly classify: ((error: unknown) => FailureDisposition) | undefined;
  readonly signal: AbortSignal | undefined;
}

const RUN_OPTIONS = [
  "ttlMs",
  "leaseDurationMs",
  "waitTimeoutMs",
  "labels",
  "maxDurationMs",
  "startTimeoutMs",
  "onUnavailable",
  "classify",
  "signal",
];
const LOOKUP_OPTIONS = ["includeBody", "signal"];
const REQUEST_MEMBERS = ["operation", "payload", "fingerprint", "fingerprintScheme"];
const DEFAULT_MAX_DURATION_MS = 15 * 60_000;
export const DEFAULT_START_TIMEOUT_MS = 30_000;
// The server refuses a span of 0 by itself; what this client counts down has to be more.
const MORE_THAN_ZERO = Number.MIN_VALUE;

/** @throws InvalidFieldError naming every argument that is wrong */
export function checkCall(
  key: Key,
  request: Request,
  onLeaseExpiry: OnLeaseExpiry,
  fn: Work,
  options: RunOptions,
): Call {
  const check = new Check();
  const checkedKey = checkKey(check, key);
  const checkedRequest = checkRequest(check, request);
  check.oneOf("on_lease_expiry", onLeaseExpiry, ["TAKE_OVER", "HOLD"]);
  if (typeof fn !== "function") check.add("fn", "must be given: a function");
  // Defaults by destructuring: null is a wrong type, not an option left out.
  const {
    ttlMs = checkedKey.ttlMs,
    leaseDurationMs,
    waitTimeoutMs = 0,
    labels = {},
    maxDurationMs = DEFAULT_MAX_DURATION_MS,
    startTimeoutMs = DEFAULT_START_TIMEOUT_MS,
    onUnavailable = "FAIL",
    classify,
    signal,
  } = check.object("options", options, RUN_OPTIONS) ? options : {};
  check.oneOf("on_unavailable", onUnavailable, ["FAIL", "RUN_UNPROTECTED"]);
  if (onUnavailable === "RUN_UNPROTECTED" && onLeaseExpiry === "HOLD") {
    check.add("on_unavailable", "who cannot pay twice (HOLD) cannot run unprotected");
  }
  check.optionalFunction("classify", classify);
  const call = {
    key: checkedKey,
    request: checkedRequest,
    onLeaseExpiry,
    fn,
    ttlMs: check.optionalSpanMs("ttl", ttlMs, 0),
    leaseDurationMs: check.optionalSpanMs("lease_duration", leaseDurationMs, 0),
    waitTimeoutMs: check.spanMs("wait_timeout", waitTimeoutMs, 0),
    labels: checkLabels(check, labels),
    maxDurationMs: check.spanMs("max_duration", maxDurationMs, MORE_THAN_ZERO),
    startTimeoutMs: check.spanMs("start_timeout", startTimeoutMs, MORE_THAN_ZERO),
    mayRunUnprotected: onUnavailable === "RUN_UNPROTECTED",
    classify,
    signal: check.optionalSignal("signal", signal),
  };
  check.end();
  return call;
}

/** @throws InvalidFieldError */
export function checkLookup(
  key: Key,
  options: LookupOptions,
): { key: Key; includeBody: boolean; signal: AbortSignal | undefined } {
  const check = new Check();
  const checkedKey = checkKey(check, key);
  const { includeBody = false, signal } = check.object("options", options, LOOKUP_OPTIONS)
    ? options
    : {};
  if (typeof includeBody !== "boolean") check.add("include_body", "must be a boolean");
  const checkedSignal = check.optionalSignal("signal", signal);
  check.end();
  return { key: checkedKey, includeBody, signal: checkedSignal };
}

// A copy: the caller may change its own while the call goes on.
function checkKey(check: Check, key: Key): Key {
  if (!check.object("key", key)) return { merchantId: "", idempotencyKey: "" };
  const checked = {
    merchantId: check.text("merchant_id", key.merchantId),
    idempotencyKey: check.text("idempotency_key", key.idempotencyKey),
    ttlMs: key.ttlMs,
  };
  if (key.merchantId === "") check.add("merchant_id", "must not be empty");
  if (key.idempotencyKey === "") check.add("idempotency_key", "must not be empty");
  return checked;
}

function checkRequest(check: Check, request: Request): CheckedRequest {
  const nothing = {
    operation: "",
    payload: undefined,
    fingerprint: new Uint8Array(),
    fingerprintScheme: 0,
  };
  if (!check.object("request", request, REQUEST_MEMBERS)) return nothing;
  const operation = check.text("operation", request.operation);
  if (request.payload !== undefined) {
    if (request.fingerprint !== undefined) {
      check.add("request", "must have one of payload and fingerprint, not both");
    }
    if (!check.object("payload", request.payload, ["data", "contentType"])) return nothing;
    const data = check.bytes("payload.data", request.payload.data);
    const contentType = check.optionalText("payload.content_type", request.payload.contentType);
    // Copied, for the same reason as the key. Text cannot change.
    return { ...nothing, operation, payload: { data: copyOf(data), contentType } };
  }
  const fingerprint: unknown = request.fingerprint;
  if (fingerprint === undefined) {
    check.add("request", "is required: one of fingerprint and payload");
    return nothing;
  }
  if (!isBytes(fingerprint)) {
    check.add("fingerprint", "must be a Uint8Array of 32 bytes");
    return nothing;
  }
  const fingerprintScheme = check.int32("fingerprint_scheme", request.fingerprintScheme ?? 0);
  return { ...nothing, operation, fingerprint: new Uint8Array(fingerprint), fingerprintScheme };
}

function copyOf(data: Uint8Array | string): Uint8Array | string {
  return typeof data === "string" ? data : new Uint8Array(data);
}

function checkLabels(check: Check, labels: unknown): Readonly<Record<string, string>> {
  const checked: Record<string, string> = {};
  if (!check.object("labels", labels)) return checked;
  for (const [name, value] of Object.entries(labels)) {
    const field = `labels["${name.replace(/[\\"]/g, "\\$&")}"]`;
    check.text(field, name);
    // A map of the generated code is a plain object, where this name is none.
    if (name === "__proto__") check.add(field, "must have another name");
    else checked[name] = check.text(field, value);
  }
  return checked;
}
