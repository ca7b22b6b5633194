/** Idempotency keys for partners, made of the record's downstream key. */

import { createHash } from "node:crypto";

import { invalidField } from "./errors.js";

/**
 * What the partner's field allows: `uuid` (36 characters, a UUID), `hex32` (32 characters), `max50`
 * (50), `max255` (64 of them are used), or `digits16` to `digits64` (that many digits). Fewer than
 * 16 digits are refused: two payments in a hundred million would share a key.
 */
export type DownstreamKeyShape = "uuid" | "hex32" | "max50" | "max255" | `digits${number}`;

const DOMAIN = "idempotency.v1 downstream key";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const PARTNER = /^[\x20-\x7e]{1,64}$/;
const SHAPE = /^(?:uuid|hex32|max50|max255|digits(?<digits>1[6-9]|[2-5][0-9]|6[0-4]))$/;

/**
 * A key for one of several partners, or for one with a narrower field than a UUID needs. The same
 * arguments give the same key, in every language, for ever.
 *
 * @param downstreamKey the record's, 36 lower-case characters
 * @param partner a name of the caller's own that never changes: 1 to 64 of printable ASCII
 * @throws InvalidFieldError naming `downstream_key`, `partner` or `shape`
 */
export function downstreamKeyFor(
  downstreamKey: string,
  partner: string,
  shape: DownstreamKeyShape,
): string {
  if (typeof downstreamKey !== "string" || !UUID.test(downstreamKey)) {
    throw invalidField("downstream_key", "must be a UUID of 36 lower-case characters");
  }
  if (typeof partner !== "string" || !PARTNER.test(partner)) {
    throw invalidField("partner", "must be 1 to 64 of printable ASCII");
  }
  const known = typeof shape === "string" ? SHAPE.exec(shape) : null;
  if (known === null) {
    throw invalidField("shape", "must be uuid, hex32, max50, max255 or digits16 to digits64");
  }
  const digest = digestOf([downstreamKey, partner, shape]);
  switch (shape) {
    case "uuid":
      return uuidOf(digest);
    case "hex32":
      return digest.toString("hex", 0, 16);
    case "max50":
      return digest.toString("hex", 0, 25);
    case "max255":
      return digest.toString("hex");
    default:
      return digitsOf(digest, Number(known.groups?.["digits"]));
  }
}

function digestOf(fields: readonly string[]): Buffer {
  const hash = createHash("sha256").update(DOMAIN);
  for (const field of fields) {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(Buffer.byteLength(field));
    hash.update(length).update(field);
  }
  return hash.digest();
}

// Version 8, for what is made by a rule of one's own (RFC 9562).
function uuidOf(digest: Buffer): string {
  const bytes = Buffer.from(digest.subarray(0, 16));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function digitsOf(digest: Buffer, count: number): string {
  const number = BigInt(`0x${digest.toString("hex")}`);
  const rest = (number / 9n) % 10n ** BigInt(count - 1);
  return String(1n + (number % 9n)) + String(rest).padStart(count - 1, "0");
}
