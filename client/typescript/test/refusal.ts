import assert from "node:assert/strict";

import { InvalidFieldError } from "@idempotencyd/client";

/** For assert.throws and assert.rejects: InvalidField of these fields, and before `fn` ran. */
export function refusesField(...fields: string[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof InvalidFieldError, String(error));
    assert.deepEqual(
      error.violations.map(({ field }) => field),
      fields,
    );
    assert.equal(error.work, undefined);
    return true;
  };
}
