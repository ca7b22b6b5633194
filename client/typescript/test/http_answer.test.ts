import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  httpAnswer,
  makeError,
  type ErrorKind,
  type IdempotencyError,
  type RunResult,
} from "@idempotencyd/client";

import { failureFrom, outcomeFrom, workFrom, type Json } from "./scenario_value.js";
import { readVectors } from "./vector.js";

const vectors = readVectors("http_answer") as {
  cases: {
    name: string;
    result: Json;
    answer: { status: number; headers: [string, string][]; body: string };
  }[];
};

function errorFrom(json: Json): IdempotencyError {
  return makeError(json["kind"] as ErrorKind, {
    message: json["message"] as string,
    retryAfterMs: json["retry_after_ms"] as number | undefined,
    stillRecording: json["still_recording"] as boolean | undefined,
    work: json["work"] === undefined ? undefined : workFrom(json["work"] as Json),
  });
}

function resultFrom(json: Json): RunResult | IdempotencyError {
  if (json["kind"] === "Error") return errorFrom(json["error"] as Json);
  return {
    kind: json["kind"],
    outcome: json["outcome"] === undefined ? undefined : outcomeFrom(json["outcome"] as Json),
    failure: json["failure"] === undefined ? undefined : failureFrom(json["failure"] as Json),
    work: json["work"] === undefined ? undefined : workFrom(json["work"] as Json),
    retryAfterMs: json["retry_after_ms"],
  } as unknown as RunResult;
}

describe("httpAnswer", () => {
  for (const { name, result, answer } of vectors.cases) {
    test(name, () => {
      const { status, headers, body } = httpAnswer(resultFrom(result));
      const text = (value: string) => Buffer.from(value, "latin1").toString("utf8");
      assert.deepEqual(
        {
          status,
          headers: headers.map(([header, value]) => [header, text(value)]),
          body: Buffer.from(body).toString("utf8"),
        },
        answer,
      );
    });
  }

  test("says nothing of an error that is none of this library's", () => {
    const { status, body } = httpAnswer(new Error("password=hunter2"));
    assert.equal(status, 500);
    assert.match(Buffer.from(body).toString(), /"code":"INTERNAL"/);
    assert.doesNotMatch(Buffer.from(body).toString(), /hunter2/);
  });

  test("puts the replacement character in place of a lone surrogate", () => {
    const failure = { disposition: "final", code: "X", message: "a\ud800b", outcome: undefined };
    const answer = httpAnswer({ kind: "Failed", failure } as unknown as RunResult);
    assert.equal(
      Buffer.from(answer.body).toString(),
      '{"status":422,"code":"X","message":"a\ufffdb"}',
    );
  });

  for (const disposition of [undefined, "FINAL", "constructor"]) {
    test(`takes the disposition ${String(disposition)}, which is none, for unknown`, () => {
      const failure = { disposition, code: "X", message: "x" };
      const answer = httpAnswer({ kind: "Failed", failure } as unknown as RunResult);
      assert.equal(answer.status, 502);
      assert.match(Buffer.from(answer.body).toString(), /"code":"OUTCOME_UNKNOWN"/);
    });
  }

  test("takes words that are none for empty ones", () => {
    const failure = { disposition: "final", code: undefined, message: 7 };
    const answer = httpAnswer({ kind: "Failed", failure } as unknown as RunResult);
    assert.equal(Buffer.from(answer.body).toString(), '{"status":422,"code":"","message":""}');
  });

  for (const [retryAfterMs, seconds] of [
    [NaN, "1"],
    [-5, "1"],
    [1_001, "2"],
    [Infinity, "9007199254740991"],
  ] as const) {
    test(`asks for ${seconds} s after ${String(retryAfterMs)} ms`, () => {
      const { headers } = httpAnswer(makeError("Unavailable", { message: "", retryAfterMs }));
      assert.deepEqual(headers.at(-1), ["Retry-After", seconds]);
    });
  }

  test("has no body of an outcome whose body was omitted", () => {
    const outcome = { statusCode: 200, body: "text", bodyOmitted: true };
    const answer = httpAnswer({ kind: "Completed", outcome } as unknown as RunResult);
    assert.equal(answer.body.length, 0);
  });

  test("gives header values a character for each byte", () => {
    const outcome = { statusCode: 200, headers: [{ name: "X", value: Buffer.from([0xff, 0x41]) }] };
    const answer = httpAnswer({ kind: "Completed", outcome } as unknown as RunResult);
    assert.deepEqual(answer.headers, [["X", "\u00ffA"]]);
  });
});
