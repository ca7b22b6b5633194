"""Replays a scenario with the asyncio client."""

from __future__ import annotations

import asyncio
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


class AsyncScenario:
    """One scenario, by AsyncClient."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = HookLog()
        options = client_options(session.client, self._log.hooks())
        self._client = client.AsyncClient(session.target, client.INSECURE, options)
        self._calls: dict[str, Call] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            for step in self._session.steps:
                await self._do(step)
        finally:
            await self._client.close()

    async def _do(self, step: JsonObject) -> None:
        name = step["do"]
        if name == "run_once":
            await self._begin(step)
        elif name == "await":
            await asyncio.wait([self._tasks[step["call"]]])
            await self._judge(step, self._calls[step["call"]].report)
        elif name == "cancel":
            self._tasks[step["call"]].cancel()
        elif name == "lookup":
            await self._judge(step, await self._lookup(step))
        elif name == "hooks":
            await self._judge(step, self._log.report(self._client.unprotected_runs))
        elif name == "close":
            await self._client.close()
        else:
            await self._in_thread(self._session.do, step)

    async def _judge(self, step: JsonObject, actual: JsonObject) -> None:
        await self._in_thread(self._session.judge, step, actual)

    @staticmethod
    async def _in_thread(function: Any, *args: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(None, function, *args)

    async def _begin(self, step: JsonObject) -> None:
        call = self._calls[step["call"]] = Call()
        task = asyncio.ensure_future(self._call(step, call))
        self._tasks[step["call"]] = task
        if not step.get("background"):
            await asyncio.wait([task])
            await self._judge(step, call.report)

    async def _call(self, step: JsonObject, call: Call) -> None:
        end: Any
        steps = step["fn"]

        async def work(attempt: client.AsyncAttempt) -> client.WorkResult:
            return await self._work(steps, call, attempt)

        try:
            end = await self._client.run_once(
                client.Key(**step["key"]),
                request_of(step["request"]),
                on_lease_expiry=expiry_of(step["on_lease_expiry"]),
                fn=None if steps is None else work,  # type: ignore[arg-type]
                options=run_options(step.get("options") or {}),
            )
        except asyncio.CancelledError:
            # The language's own way to say it. Only before `fn`: from then on the truth is told.
            assert call.runs == 0
            end = client.Cancelled()
        except BaseException as error:  # noqa: BLE001 - a crash of `fn` is part of a scenario
            end = error
        call.finish(end)

    async def _work(
        self, steps: list[JsonObject], call: Call, attempt: client.AsyncAttempt
    ) -> client.WorkResult:
        call.runs += 1
        call.attempt = attempt
        try:
            return await self._work_steps(steps, attempt)
        finally:
            call.stop_reason = attempt.stop_reason().value

    async def _work_steps(
        self, steps: list[JsonObject], attempt: client.AsyncAttempt
    ) -> client.WorkResult:
        for step in steps:
            name = step["do"]
            if name == "return":
                return work_of(step["work"])
            if name == "throw":
                raise NamedError(step["error"])
            if name == "throw_timeout":
                raise asyncio.TimeoutError
            if name == "throw_cancelled":
                raise asyncio.CancelledError
            if name == "crash":
                raise Crash
            if name == "await_stop":
                await asyncio.wait_for(attempt.stop.wait(), 60)
            else:
                await self._do(step)
        raise AssertionError("fn has no end")

    async def _lookup(self, step: JsonObject) -> JsonObject:
        try:
            found = await self._client.lookup(
                client.Key(**step["key"]), include_body=step.get("include_body", False)
            )
        except client.IdempotencyError as error:
            return {"error": report_of_error(error)["error"]}
        return {"record": report_of_record(found)}
