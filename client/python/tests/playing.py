"""Plays the service, the channel and the clock for a flow."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest

from idempotency_client import _aio_core, _core, _flow, _lease, _plan, _recording, _start
from idempotency_client._failure import CallFailure
from idempotency_client._flow import Call, Flow, Reply, Settle, Sleep, Step
from idempotency_client._generated import idempotency_service_pb2 as service
from idempotency_client._plan import Caller, Config, Plan, config_of, plan_of
from idempotency_client._start import Start
from idempotency_client.options import ClientOptions, RunOptions
from idempotency_client.types import Key, OnLeaseExpiry, Payload, Request

AWAY = ["STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"]
KEY = Key("acme", "order-7")
REQUEST = Request("POST /payments", Payload(b"{}", "application/json"))


class Clock:
    """Moves only when told, or when a flow sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Play:
    """Drives a flow: `answers` are the service's, in order, or what makes one of a call."""

    def __init__(self, clock: Clock, *answers: Any) -> None:
        self.clock = clock
        self.steps: list[Step] = []
        self._answers = list(answers)

    def drive(self, flow: Flow[Any]) -> Any:
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                return end.value
            self.steps.append(step)
            reply = self._answer(step)

    def _answer(self, step: Step) -> Reply:
        if isinstance(step, Sleep):
            self.clock.time = max(self.clock.time, step.until)
            return None
        if isinstance(step, Settle):
            return True
        assert self._answers, f"no answer is left for {step.rpc}"
        answer = self._answers.pop(0)
        reply: Reply = answer(step) if callable(answer) else answer
        return reply

    @property
    def calls(self) -> list[Call]:
        return [step for step in self.steps if isinstance(step, Call)]

    @property
    def sleeps(self) -> list[Sleep]:
        return [step for step in self.steps if isinstance(step, Sleep)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (_flow, _lease, _plan, _recording, _start, _core, _aio_core):
        monkeypatch.setattr(module, "now", clock)
    return clock


def config(**options: Any) -> Config:
    return config_of(ClientOptions(**options))


def plan(on_lease_expiry: OnLeaseExpiry = OnLeaseExpiry.TAKE_OVER, **options: Any) -> Plan:
    return plan_of(
        KEY, REQUEST, on_lease_expiry, print, RunOptions(**options), takes_coroutines=False
    )


def patient() -> Caller:
    return Caller(None)


def refused(code: int, reason: str = "", **more: Any) -> CallFailure:
    return CallFailure(code, reason=reason, **more)


def started(**fields: Any) -> Callable[[Call], bytes]:
    """The attempt of the call, as the service would start it."""

    def answer(call: Call) -> bytes:
        begin = service.BeginRequest.FromString(call.request)
        response = service.BeginResponse(record_id=fields.pop("record_id", "r"))
        values = {
            "attempt_id": begin.attempt_id,
            "attempt_number": 1,
            "downstream_key": "3d3b1d3a-5f5d-4d7c-9c5c-2f6b8d2f1a10",
            **fields,
        }
        lease = values.pop("lease", 60.0)
        for name, value in values.items():
            setattr(response.started, name, value)
        if lease is not None:
            response.started.lease_remaining.FromMilliseconds(round(lease * 1000))
        return response.SerializeToString()

    return answer


def in_progress(retry_after: float = 0.1) -> bytes:
    response = service.BeginResponse(record_id="r")
    response.in_progress.retry_after.FromMilliseconds(round(retry_after * 1000))
    response.in_progress.attempt_number = 1
    return response.SerializeToString()


def renewed(lease: float = 60.0) -> bytes:
    response = service.RenewResponse(record_id="r")
    response.lease_remaining.FromMilliseconds(round(lease * 1000))
    return response.SerializeToString()


def recorded() -> bytes:
    response = service.CompleteResponse(record_id="r")
    response.finish_time.FromSeconds(1)
    return response.SerializeToString()


def begin(
    clock: Clock,
    *answers: Any,
    given: Optional[Plan] = None,
    caller: Optional[Caller] = None,
    settings: Optional[Config] = None,
) -> tuple[Any, Start, Play]:
    start = Start(given or plan(), settings or config(), caller or patient())
    play = Play(clock, *answers)
    return play.drive(start.flow()), start, play


def released(start: Start) -> bool:
    return start.release() is not None
