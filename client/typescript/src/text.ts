/** Text on its way to the wire, where it is UTF-8. */

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

/** Whether `text` can be sent: an encoder would put a replacement in place of a lone surrogate. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}

/** Cut to `maxBytes` of UTF-8 between two characters, with `?` for lone surrogates. */
export function cleanText(text: string, maxBytes: number): string {
  let clean = "";
  let bytes = 0;
  for (const character of text) {
    const kept = isWellFormed(character) ? character : "?";
    bytes += Buffer.byteLength(kept, "utf8");
    if (bytes > maxBytes) break;
    clean += kept;
  }
  return clean;
}

/** The bytes of a value that may be given as text. */
export function bytesOf(value: Uint8Array | string): Buffer {
  if (typeof value === "string") return Buffer.from(value, "utf8");
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
