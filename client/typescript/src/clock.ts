/**
 * The clocks that leases and budgets are measured on.
 *
 * Node's monotonic clock stands still while the machine is suspended, and it offers no other. So a
 * lease is measured on the wall clock as well, and the one that has gone further counts: a suspended
 * machine wakes with its lease over, and a wall clock that was put forward costs a lease that might
 * have been good, which is the harmless mistake. Budgets of this process (time-outs of tries, how
 * long to repeat) are measured on the monotonic clock alone.
 */

/** An instant on both clocks, in milliseconds. */
export interface Instant {
  readonly monotonic: number;
  readonly wall: number;
}

export function now(): Instant {
  return { monotonic: performance.now(), wall: Date.now() };
}

/** Milliseconds since `then` by the clock that has gone further; never negative. */
export function elapsedMs(then: Instant): number {
  return Math.max(performance.now() - then.monotonic, Date.now() - then.wall, 0);
}

/** The monotonic clock's reading `spanMs` from now. */
export function after(spanMs: number): number {
  return performance.now() + spanMs;
}

/** Milliseconds from now to that reading of the monotonic clock; never negative. */
export function until(then: number): number {
  return Math.max(then - performance.now(), 0);
}

// What setTimeout can hold; more it takes for 1 ms.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** As setTimeout; a span that is too long for it is cut, so the callback looks at the clock. */
export function startTimer(callback: () => void, spanMs: number): NodeJS.Timeout {
  return setTimeout(callback, Math.min(Math.ceil(spanMs), LONGEST_TIMER_MS));
}
