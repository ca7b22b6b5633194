/** The one who waits for a call: when it wants no answer any more. */

import { makeError, type IdempotencyError } from "./errors.js";
import { after, startTimer, until } from "./clock.js";

/** `closed`: the client was closed, and calls no more. */
export type GoneReason = "cancelled" | "deadline" | "closed";

/**
 * Follows the caller's signal, if there is one, until `dispose`; so that a signal that lives as long
 * as the process does not gather listeners.
 */
export class Caller {
  readonly #listeners = new Set<(why: GoneReason) => void>();
  readonly #signal: AbortSignal | undefined;
  #whyGone: GoneReason | undefined;

  constructor(signal?: AbortSignal) {
    this.#signal = signal;
    if (signal?.aborted === true) this.#onAbort();
    signal?.addEventListener("abort", this.#onAbort);
  }

  dispose(): void {
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  /** Undefined while it waits. */
  get whyGone(): GoneReason | undefined {
    return this.#whyGone;
  }

  /** The caller is gone from now on, unless it is already. */
  leave(why: GoneReason): void {
    if (this.#whyGone !== undefined) return;
    this.#whyGone = why;
    for (const listener of this.#listeners) listener(why);
    this.#listeners.clear();
  }

  /** Calls `listener` once: when the caller is gone, or now. Returns what ends the listening. */
  onGone(listener: (why: GoneReason) => void): () => void {
    if (this.#whyGone !== undefined) {
      listener(this.#whyGone);
      return () => undefined;
    }
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves after that span, or when the caller is gone. Keeps the process alive. */
  sleep(spanMs: number): Promise<void> {
    return this.nap(spanMs).ended;
  }

  /** A sleep that can be ended early. */
  nap(spanMs: number): { readonly ended: Promise<void>; readonly end: () => void } {
    const wakeAt = after(spanMs);
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      let stop = (): void => undefined;
      end = () => {
        clearTimeout(timer);
        stop();
        resolve();
      };
      const look = (): void => {
        const leftMs = until(wakeAt);
        if (leftMs > 0) timer = startTimer(look, leftMs);
        else end();
      };
      look();
      stop = this.onGone(end);
    });
    return { ended, end };
  }

  readonly #onAbort = (): void => {
    const reason: unknown = this.#signal?.reason;
    const isTimeout =
      typeof reason === "object" &&
      reason !== null &&
      (reason as { name?: unknown }).name === "TimeoutError";
    this.leave(isTimeout ? "deadline" : "cancelled");
  };
}

/** Why its work is asked to stop then. */
export function stopReasonOf(why: GoneReason): "cancelled" | "deadline" {
  return why === "deadline" ? "deadline" : "cancelled";
}

/** What a caller that is gone is told. */
export function goneError(why: GoneReason): IdempotencyError {
  switch (why) {
    case "cancelled":
      return makeError("Cancelled", "the caller cancelled");
    case "deadline":
      return makeError("DeadlineExceeded", "the caller's deadline passed");
    case "closed":
      return makeError("Unavailable", "the client is closed");
  }
}
