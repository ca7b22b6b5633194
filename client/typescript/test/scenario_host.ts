/** The scenario host of tests/harness, as client/scenarios/README.md describes it. */

export const HOST = process.env["IDEMPOTENCY_SCENARIO_HOST"];

export interface Step {
  readonly do: string;
  readonly [member: string]: unknown;
}

interface Verdict {
  readonly ok: boolean;
  readonly problem?: string;
}

export interface SessionStart {
  readonly id: string;
  readonly target: string;
  readonly client?: Readonly<Record<string, number>>;
  readonly steps: readonly Step[];
}

export interface ScenarioName {
  readonly name: string;
  readonly title: string;
}

export async function listScenarios(host: string): Promise<ScenarioName[]> {
  return (await ask(`${host}/scenarios`)) as ScenarioName[];
}

/** The address of a replica for everything that is no scenario. */
export async function serviceTarget(host: string): Promise<string> {
  return ((await ask(`${host}/service`)) as { target: string }).target;
}

/** A session of one scenario with the host. */
export class HostSession {
  private constructor(
    private readonly host: string,
    readonly start: SessionStart,
  ) {}

  static async open(host: string, scenario: string): Promise<HostSession> {
    const body = { scenario, language: "typescript" };
    return new HostSession(host, (await ask(`${host}/sessions`, body)) as SessionStart);
  }

  /** @throws Error with the host's words if the step is not ok */
  async step(step: Step): Promise<void> {
    requireOk(await this.#post("steps", step), step.do);
  }

  /** @throws Error with the host's words if `actual` is not what is expected */
  async judge(expect: unknown, actual: unknown, what: string): Promise<void> {
    requireOk(await this.#post("judge", { expect, actual }), what);
  }

  /** @throws Error with the host's words if it does not believe that all passed */
  async pass(): Promise<void> {
    requireOk(await this.#post("end", { passed: true }), "end");
  }

  async fail(problem: string): Promise<void> {
    await this.#post("end", { passed: false, problem });
  }

  #post(path: string, body: unknown): Promise<unknown> {
    return ask(`${this.host}/sessions/${this.start.id}/${path}`, body);
  }
}

function requireOk(answer: unknown, what: string): void {
  const { ok, problem = "" } = answer as Verdict;
  if (!ok) throw new Error(`${what}: ${problem}`);
}

async function ask(url: string, body?: unknown): Promise<unknown> {
  const answer = await fetch(url, {
    ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
    headers: { "Content-Type": "application/json" },
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url} answered ${String(answer.status)}: ${text}`);
  return text === "" ? {} : JSON.parse(text);
}
