/**
 * Sends one Complete or Fail until it is known to be recorded or refused.
 *
 * Detached: it goes on whether or not anybody waits for it, with identical bytes each time. Its
 * calls and its pauses keep the process alive until it has ended.
 */

import { toBinary } from "@bufbuild/protobuf";
import { status as Code } from "@grpc/grpc-js";

import { Backoff } from "./backoff.js";
import { CallFailure } from "./call_failure.js";
import { Caller } from "./caller.js";
import { after, elapsedMs, now, startTimer, until } from "./clock.js";
import { dateOf, omitBody } from "./convert.js";
import { callHook, type Core } from "./core.js";
import { makeError, type IdempotencyError } from "./errors.js";
import {
  CompleteRequestSchema,
  CompleteResponseSchema,
  FailRequestSchema,
  FailResponseSchema,
  type CompleteRequest,
  type FailRequest,
} from "./gen/idempotency/v1/idempotency_service_pb.js";
import type { Try } from "./wire.js";

export interface Recorded {
  readonly finishTime: Date;
  readonly withoutBody: boolean;
}

// When a release that came before its Begin is tried again. Guessed: a Begin takes milliseconds, and
// one that is still queued when its caller has left is dropped.
const LATE_LOOK_MS = 2_000;
// At least a moment for the last try, however little of the budget is left.
const SHORTEST_TRY_MS = 100;

export class Recorder {
  /** Never rejects. */
  readonly ended: Promise<Recorded | IdempotencyError>;
  readonly #caller = new Caller(); // gone when abandoned
  readonly #backoff = new Backoff();
  readonly #giveUpAt: number;
  #try: Try<typeof CompleteResponseSchema | typeof FailResponseSchema>;
  #hasRefreshed = false;
  #hasOmitted = false;

  /**
   * Begins at once. `onLost` is called once if it ends unrecorded, before any waiter is told.
   * `mayBeEarly`: the attempt's Begin may still be on its way, perhaps through another replica, so a
   * refusal because the service does not know the attempt is looked at once more.
   */
  constructor(
    private readonly core: Core,
    private readonly request: CompleteRequest | FailRequest,
    private readonly onLost: (error: IdempotencyError) => void,
    private mayBeEarly: boolean,
  ) {
    this.#giveUpAt = after(core.options.recordTimeoutMs);
    this.#try = tryOf(request);
    core.recorders.add(this);
    if (core.hasGivenUp) this.abandon();
    this.ended = this.#run();
  }

  /** Ends it as not recorded, unless it has ended. */
  abandon(): void {
    this.#caller.leave("cancelled");
  }

  /** Until it has ended, or the caller is gone and that much time has passed since now. */
  async await(caller: Caller, graceMs: number): Promise<Recorded | IdempotencyError | undefined> {
    const since = now();
    let timer: NodeJS.Timeout | undefined;
    let stop = (): void => undefined;
    const left = new Promise<undefined>((resolve) => {
      stop = caller.onGone(() => {
        const leave = (): void => {
          resolve(undefined);
        };
        timer = startTimer(leave, Math.max(graceMs - elapsedMs(since), 0));
      });
    });
    const end = await Promise.race([this.ended, left]);
    stop();
    clearTimeout(timer);
    return end;
  }

  async #run(): Promise<Recorded | IdempotencyError> {
    const end = await this.#repeat();
    if (end instanceof Error) this.onLost(end);
    this.core.recorders.delete(this);
    this.core.lookIdle();
    return end;
  }

  async #repeat(): Promise<Recorded | IdempotencyError> {
    for (;;) {
      const leftMs = Math.max(until(this.#giveUpAt), SHORTEST_TRY_MS);
      const timeoutMs = Math.min(this.core.options.rpcTimeoutMs, leftMs);
      if (this.#isAbandoned) return abandonedError();
      const answer = await this.core.calls.call(this.#try, timeoutMs, this.#caller);
      if (!(answer instanceof CallFailure)) {
        return { finishTime: dateOf(answer.finishTime), withoutBody: this.#hasOmitted };
      }
      if (this.#isAbandoned) return abandonedError();
      const pauseMs = await this.#pauseAfter(answer);
      if (pauseMs === undefined) return answer.toError();
      if (until(this.#giveUpAt) === 0) return answer.toError("OutcomeNotRecorded");
      void callHook(this.core.options.hooks.onRetry, this.#try.rpc, answer.toError());
      await this.#caller.sleep(Math.min(pauseMs, until(this.#giveUpAt)));
    }
  }

  /** Undefined: it is refused for good. */
  async #pauseAfter(failure: CallFailure): Promise<number | undefined> {
    if (failure.code === Code.UNAUTHENTICATED) {
      if (this.#hasRefreshed) return undefined;
      this.#hasRefreshed = true;
      await this.core.refreshCredentials(this.#caller);
      return 0;
    }
    if (failure.isTooLarge) return this.#omitBodyOnce() ? 0 : undefined;
    if (this.mayBeEarly && (failure.kind === "RecordNotFound" || failure.kind === "LeaseLost")) {
      this.mayBeEarly = false;
      return LATE_LOOK_MS;
    }
    return failure.isWorthRecordingAgain ? this.#backoff.next(failure.retryAfterMs) : undefined;
  }

  #omitBodyOnce(): boolean {
    if (this.#hasOmitted) return false;
    const { request } = this;
    const outcome =
      request.$typeName === "idempotency.v1.CompleteRequest"
        ? request.outcome
        : request.failure?.outcome;
    if (!omitBody(outcome)) return false;
    this.#hasOmitted = true;
    this.#try = tryOf(request);
    return true;
  }

  get #isAbandoned(): boolean {
    return this.#caller.whyGone !== undefined;
  }
}

function tryOf(
  request: CompleteRequest | FailRequest,
): Try<typeof CompleteResponseSchema | typeof FailResponseSchema> {
  const isWhole = (answer: { finishTime?: unknown }): boolean => answer.finishTime !== undefined;
  return request.$typeName === "idempotency.v1.CompleteRequest"
    ? {
        rpc: "Complete",
        schema: CompleteResponseSchema,
        request: Buffer.from(toBinary(CompleteRequestSchema, request)),
        isWhole,
      }
    : {
        rpc: "Fail",
        schema: FailResponseSchema,
        request: Buffer.from(toBinary(FailRequestSchema, request)),
        isWhole,
      };
}

function abandonedError(): IdempotencyError {
  return makeError(
    "OutcomeNotRecorded",
    "the client was closed before the service had recorded it",
  );
}
