"""Replays a scenario with the synchronous client."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import idempotency_client as client
from scenario_host import Session
from scenario_values import (
    Call,
    Crash,
    HookLog,
    JsonObject,
    NamedError,
    client_options,
    expiry_of,
    report_of_error,
    report_of_record,
    request_of,
    run_options,
    work_of,
)


class SyncScenario:
    """One scenario, by Client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = HookLog()
        options = client_options(session.client, self._log.hooks())
        self._client = client.Client(session.target, client.INSECURE, options)
        self._calls: dict[str, Call] = {}
        self._tokens: dict[str, client.CancelToken] = {}
        self._threads: dict[str, threading.Thread] = {}

    def run(self) -> None:
        try:
            for step in self._session.steps:
                self._do(step)
        finally:
            self._client.close()

    def _do(self, step: JsonObject) -> None:
        name = step["do"]
        if name == "run_once":
            self._begin(step)
        elif name == "await":
            self._threads[step["call"]].join()
            self._session.judge(step, self._calls[step["call"]].report)
        elif name == "cancel":
            self._tokens[step["call"]].cancel()
        elif name == "lookup":
            self._session.judge(step, self._lookup(step))
        elif name == "hooks":
            self._session.judge(step, self._log.report(self._client.unprotected_runs))
        elif name == "close":
            self._client.close()
        else:
            self._session.do(step)

    def _begin(self, step: JsonObject) -> None:
        call = self._calls[step["call"]] = Call()
        token = self._tokens[step["call"]] = client.CancelToken()
        thread = threading.Thread(target=self._call, args=(step, call, token))
        self._threads[step["call"]] = thread
        thread.start()
        if not step.get("background"):
            thread.join()
            self._session.judge(step, call.report)

    def _call(self, step: JsonObject, call: Call, token: client.CancelToken) -> None:
        end: Any
        given = {**run_options(step.get("options") or {}).__dict__, "cancel": token}
        steps = step["fn"]
        try:
            end = self._client.run_once(
                client.Key(**step["key"]),
                request_of(step["request"]),
                on_lease_expiry=expiry_of(step["on_lease_expiry"]),
                fn=None if steps is None else lambda attempt: self._work(steps, call, attempt),  # type: ignore[arg-type]
                options=client.RunOptions(**given),
            )
        except BaseException as error:  # noqa: BLE001 - a crash of `fn` is part of a scenario
            end = error
        call.finish(end)

    def _work(
        self, steps: list[JsonObject], call: Call, attempt: client.Attempt
    ) -> client.WorkResult:
        call.runs += 1
        call.attempt = attempt
        try:
            return self._work_steps(steps, attempt)
        finally:
            call.stop_reason = attempt.stop_reason().value

    def _work_steps(self, steps: list[JsonObject], attempt: client.Attempt) -> client.WorkResult:
        for step in steps:
            name = step["do"]
            if name == "return":
                return work_of(step["work"])
            if name == "throw":
                raise NamedError(step["error"])
            if name == "throw_timeout":
                raise concurrent.futures.TimeoutError
            if name == "throw_cancelled":
                raise concurrent.futures.CancelledError
            if name == "crash":
                raise Crash
            if name == "await_stop":
                assert attempt.stop.wait(60), "fn was not asked to stop"
            else:
                self._do(step)
        raise AssertionError("fn has no end")

    def _lookup(self, step: JsonObject) -> JsonObject:
        try:
            found = self._client.lookup(
                client.Key(**step["key"]), include_body=step.get("include_body", False)
            )
        except client.IdempotencyError as error:
            return {"error": report_of_error(error)["error"]}
        return {"record": report_of_record(found)}
