/** The vectors that all clients share. */

import { readFileSync } from "node:fs";

export function readVectors(name: string): unknown {
  const url = new URL(`../../../vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8"));
}
