/** Names for operations. */

import { createHash, randomUUID } from "node:crypto";

import { invalidField } from "./errors.js";
import { isWellFormed } from "./text.js";

const MAX_PARTS = 16;
const MAX_PART_BYTES = 1024;
const MAX_ESCAPED_PART = 64;
const MAX_KEY = 255;
const KIND = /^[a-z0-9._-]{1,32}$/;
const KEPT = /^[A-Za-z0-9._-]$/;

/** A UUIDv4 from the system's random source, for a request that has no name of its own. */
export function randomRequestId(): string {
  return randomUUID();
}

/**
 * An idempotency key made of what the operation is about: `businessKey("pay", "order-7", "card")` is
 * `pay:order-7:card`. Different parts always give different keys; a key made so never changes, so
 * give it a long `ttlMs`, or use `Key.business`. The caller's own unique constraint stays the last
 * line.
 *
 * @param kind 1 to 32 of `a-z 0-9 . _ -`
 * @param parts 1 to 16, each 1 to 1,024 bytes of UTF-8
 * @throws InvalidFieldError naming `kind`, `parts` or `parts[i]`
 */
export function businessKey(kind: string, ...parts: string[]): string {
  if (typeof kind !== "string" || !KIND.test(kind)) {
    throw invalidField("kind", "must be 1 to 32 of a-z 0-9 . _ -");
  }
  if (parts.length < 1 || parts.length > MAX_PARTS) {
    throw invalidField("parts", `must be 1 to ${String(MAX_PARTS)}`);
  }
  const key = [kind, ...parts.map(escapePart)].join(":");
  return key.length <= MAX_KEY ? key : `${kind}:~~${digestOf(key)}`;
}

function escapePart(part: string, index: number): string {
  const field = `parts[${String(index)}]`;
  if (typeof part !== "string") throw invalidField(field, "must be a string");
  if (!isWellFormed(part)) throw invalidField(field, "must not have a lone surrogate");
  const bytes = Buffer.from(part, "utf8");
  if (bytes.length < 1 || bytes.length > MAX_PART_BYTES) {
    throw invalidField(field, `must be 1 to ${String(MAX_PART_BYTES)} bytes`);
  }
  let escaped = "";
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    escaped += KEPT.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return escaped.length <= MAX_ESCAPED_PART ? escaped : `~${digestOf(part)}`;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("base64url");
}
