/** All of client/scenarios, each against a real service with real faults between. */

import { describe, test } from "node:test";

import { HOST, listScenarios } from "./scenario_host.js";
import { replayScenario } from "./scenario_session.js";

const skip = HOST === undefined ? "IDEMPOTENCY_SCENARIO_HOST is not set" : false;
const only = process.env["IDEMPOTENCY_SCENARIO"] ?? "";
const scenarios = HOST === undefined ? [] : await listScenarios(HOST);

// They wait more than they work.
describe("scenarios", { skip, concurrency: 16 }, () => {
  for (const { name, title } of scenarios.filter((one) => one.name.includes(only))) {
    test(`${name}: ${title}`, () => replayScenario(HOST ?? "", name));
  }
});
