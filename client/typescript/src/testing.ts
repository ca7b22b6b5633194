/**
 * For the tests of code that uses `runOnce`: a Runner in memory, and attempts to try `fn` with.
 *
 * @packageDocumentation
 */

export { FakeRunner } from "./fake_runner.js";
export { fakeAttempt } from "./fake_attempt.js";
