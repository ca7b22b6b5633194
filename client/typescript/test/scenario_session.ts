/** Replays one scenario with a client of its own. */

import {
  credentials,
  IdempotencyClient,
  IdempotencyError,
  type Attempt,
  type FailureDisposition,
  type Hooks,
  type Key,
  type OnLeaseExpiry,
  type RunOptions,
  type RunResult,
  type Work,
  type WorkResult,
} from "@idempotencyd/client";

import { HostSession, type Step } from "./scenario_host.js";
import {
  attemptJson,
  errorJson,
  recordJson,
  requestFrom,
  resultJson,
  workFrom,
  type Json,
} from "./scenario_value.js";

/** What `fn` throws where a scenario says so. */
class ScenarioError extends Error {
  constructor(readonly word: string) {
    super(`the scenario's error ${word}`);
  }
}

interface Call {
  readonly controller: AbortController;
  readonly ended: Promise<Json>;
}

const OPTION_NAMES: Readonly<Record<string, string>> = {
  ttl_ms: "ttlMs",
  lease_duration_ms: "leaseDurationMs",
  wait_timeout_ms: "waitTimeoutMs",
  max_duration_ms: "maxDurationMs",
  start_timeout_ms: "startTimeoutMs",
  labels: "labels",
  on_unavailable: "onUnavailable",
  rpc_timeout_ms: "rpcTimeoutMs",
  record_timeout_ms: "recordTimeoutMs",
  shutdown_timeout_ms: "shutdownTimeoutMs",
};

/** @throws Error at the first thing that is not ok, after the host was told */
export async function replayScenario(host: string, name: string): Promise<void> {
  const hostSession = await HostSession.open(host, name);
  const session = new ScenarioSession(hostSession);
  try {
    for (const step of hostSession.start.steps) await session.take(step);
    await hostSession.pass();
  } catch (error) {
    await hostSession.fail(String(error));
    throw error;
  } finally {
    // After the end: what is still recorded in the background then finds no faults any more.
    await session.close();
  }
}

class ScenarioSession {
  readonly #client: IdempotencyClient;
  readonly #calls = new Map<string, Call>();
  readonly #told = {
    outcome_not_recorded: [] as string[],
    unprotected: 0,
    retries: {} as Record<string, number>,
    refreshes: 0,
  };
  // A host's step in fn was not ok: the work is over, and so is the scenario.
  #problem: Error | undefined;

  constructor(private readonly host: HostSession) {
    const { target, client = {} } = host.start;
    this.#client = new IdempotencyClient({
      target,
      credentials: credentials.createInsecure(),
      hooks: this.#hooks(),
      ...renamed(client),
    });
  }

  async close(): Promise<void> {
    for (const call of this.#calls.values()) call.controller.abort();
    await this.#client.close();
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case "run_once":
        await this.#runOnce(step);
        break;
      case "await":
        await this.#judgeCall(step);
        break;
      case "cancel":
        this.#callOf(step).controller.abort();
        break;
      case "lookup":
        await this.#lookup(step);
        break;
      case "hooks": {
        const told = { ...this.#told, unprotected_runs: this.#client.unprotectedRuns };
        await this.host.judge(step["expect"], told, "hooks");
        break;
      }
      case "close":
        await this.#client.close();
        break;
      default:
        await this.host.step(step);
    }
    if (this.#problem !== undefined) throw this.#problem;
  }

  #hooks(): Hooks {
    return {
      onOutcomeNotRecorded: (_key, _work, error) =>
        this.#told.outcome_not_recorded.push(error.kind),
      onUnprotected: () => (this.#told.unprotected += 1),
      onRetry: (rpc) => (this.#told.retries[rpc] = (this.#told.retries[rpc] ?? 0) + 1),
      refreshCredentials: () => (this.#told.refreshes += 1),
    };
  }

  async #runOnce(step: Step): Promise<void> {
    const controller = new AbortController();
    const seen: { attempt?: Attempt; end?: Json; runs: number } = { runs: 0 };
    const steps = step["fn"] as readonly Step[] | null;
    const fn =
      steps &&
      (async (attempt: Attempt): Promise<WorkResult> => {
        seen.runs += 1;
        try {
          return await this.#work(steps, attempt);
        } finally {
          seen.end = attemptJson(attempt);
        }
      });
    const running = this.#client.runOnce(
      keyFrom(step["key"] as Json),
      requestFrom(step["request"] as Json),
      step["on_lease_expiry"] as OnLeaseExpiry,
      fn as Work,
      { ...optionsFrom((step["options"] ?? {}) as Json, controller), signal: controller.signal },
    );
    const ended = running.then(
      (result) => this.#actual(result, seen),
      (error: unknown) => {
        if (error instanceof IdempotencyError) return this.#actual(error as IdempotencyError, seen);
        throw error;
      },
    );
    // Whoever awaits it hears of an error; until then it is not an unhandled one.
    ended.catch(() => undefined);
    this.#calls.set(step["call"] as string, { controller, ended });
    if (step["background"] !== true) await this.#judgeCall(step);
  }

  #actual(result: RunResult | IdempotencyError, seen: { end?: Json; runs: number }): Json {
    return { ...resultJson(result), ran: seen.runs > 0, runs: seen.runs, attempt: seen.end };
  }

  async #judgeCall(step: Step): Promise<void> {
    const actual = await this.#callOf(step).ended;
    if (this.#problem !== undefined) throw this.#problem;
    if (step["expect"] === undefined) return;
    await this.host.judge(step["expect"], actual, `${step.do} ${String(step["call"])}`);
  }

  #callOf(step: Step): Call {
    const call = this.#calls.get(step["call"] as string);
    if (call === undefined) throw new Error(`there is no call ${String(step["call"])}`);
    return call;
  }

  async #lookup(step: Step): Promise<void> {
    const lookup = this.#client.lookup(keyFrom(step["key"] as Json), {
      includeBody: step["include_body"] as boolean | undefined,
    });
    const actual = await lookup.then(
      (record) => ({ record: recordJson(record) }),
      (error: unknown) => ({ error: errorJson(error as IdempotencyError) }),
    );
    await this.host.judge(step["expect"], actual, "lookup");
  }

  async #work(steps: readonly Step[], attempt: Attempt): Promise<WorkResult> {
    for (const step of steps) {
      switch (step.do) {
        case "return":
          return workFrom(step["work"] as Json);
        case "throw":
          throw new ScenarioError(step["error"] as string);
        case "throw_timeout":
          throw new DOMException("the partner did not answer in time", "TimeoutError");
        case "throw_cancelled":
          throw new DOMException("the work was cancelled", "AbortError");
        case "crash":
          // eslint-disable-next-line @typescript-eslint/only-throw-error -- what it is about
          throw "a text that is no Error";
        case "await_stop":
          await untilAborted(attempt.signal);
          break;
        case "cancel":
          this.#callOf(step).controller.abort();
          break;
        default:
          await this.#hostStep(step);
      }
    }
    throw new Error("the scenario's work has no end");
  }

  async #hostStep(step: Step): Promise<void> {
    try {
      await this.host.step(step);
    } catch (error) {
      this.#problem ??= error as Error;
      throw error;
    }
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => {
      resolve();
    });
  });
}

function keyFrom(json: Json): Key {
  return {
    merchantId: json["merchant_id"] as string,
    idempotencyKey: json["idempotency_key"] as string,
  };
}

function renamed(json: Json): object {
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => {
      const own = OPTION_NAMES[name];
      if (own === undefined) throw new Error(`there is no option ${name}`);
      return [own, value];
    }),
  );
}

function optionsFrom(json: Json, controller: AbortController): RunOptions {
  const { classify, deadline_ms: deadlineMs, ...others } = json;
  if (deadlineMs !== undefined) {
    // As AbortSignal.timeout does, beside the scenario's own cancellation.
    setTimeout(() => {
      controller.abort(new DOMException("the caller's deadline", "TimeoutError"));
    }, deadlineMs as number).unref();
  }
  if (classify === undefined) return renamed(others);
  const words = classify as Readonly<Record<string, FailureDisposition>>;
  return {
    ...renamed(others),
    classify: (error) =>
      (error instanceof ScenarioError ? words[error.word] : undefined) ?? "unknown",
  };
}
