/** How long to wait before a call is repeated. */

const FIRST_MS = 50;
const LONGEST_MS = 5_000;
const LONGEST_ASKED_MS = 60_000;

/**
 * Doubles from 50 ms up to `longestMs`; each wait is drawn from its upper half. Guessed: fast enough
 * for a replica that restarts, slow enough for a thousand callers.
 */
export class Backoff {
  #nextMs = FIRST_MS;

  constructor(private readonly longestMs = LONGEST_MS) {}

  /**
   * The next wait. `askedMs`: what the server asked for, which counts instead (a minute at most),
   * with up to a fifth on top, so that those it told the same do not come back together.
   */
  next(askedMs: number | undefined): number {
    if (askedMs !== undefined) {
      const waitMs = Math.min(askedMs, LONGEST_ASKED_MS);
      return between(waitMs, waitMs * 1.2);
    }
    const waitMs = this.#nextMs;
    this.#nextMs = Math.min(this.longestMs, 2 * waitMs);
    return between(waitMs / 2, waitMs);
  }

  reset(): void {
    this.#nextMs = FIRST_MS;
  }
}

function between(low: number, high: number): number {
  return low + Math.random() * (high - low);
}
