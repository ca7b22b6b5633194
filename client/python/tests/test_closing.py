"""Closing a client while calls of it are under way."""

from __future__ import annotations

import asyncio
import threading
from concurrent import futures
from typing import Any, Iterator

import grpc
import pytest

import idempotency_client as client
from idempotency_client import (
    INSECURE,
    AsyncAttempt,
    AsyncClient,
    Attempt,
    ClientOptions,
    OnLeaseExpiry,
    RunOptions,
    StopReason,
    WorkResult,
)
from idempotency_client._core import Core
from service import DONE, KEY, REQUEST, Gate, Lost, Service, eventually, eventually_in_loop, refuse

TAKE_OVER = OnLeaseExpiry.TAKE_OVER


def run(runner: Any, fn: Any, **options: Any) -> Any:
    return runner.run_once(
        KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=RunOptions(**options)
    )


def never(_: Any) -> WorkResult:
    raise AssertionError("fn ran")


async def never_async(_: Any) -> WorkResult:
    raise AssertionError("fn ran")


@pytest.fixture
def other() -> Iterator[futures.ThreadPoolExecutor]:
    with futures.ThreadPoolExecutor(2) as pool:
        yield pool


def test_fn_is_told_at_once_keeps_its_lease_and_is_recorded(
    service: Service, other: futures.ThreadPoolExecutor
) -> None:
    service.lease = 0.3
    lost = Lost()
    runner = service.client(shutdown_timeout=60, hooks=lost.hooks)
    began = threading.Event()

    def fn(attempt: Attempt) -> WorkResult:
        began.set()
        assert attempt.stop.wait(30)
        assert attempt.stop_reason() is StopReason.CANCELLED
        renewals = len(service.requests("Renew"))
        eventually(lambda: len(service.requests("Renew")) > renewals + 3, "it is renewed on")
        return DONE

    result = other.submit(run, runner, fn)
    assert began.wait(30)
    runner.close()
    assert isinstance(result.result(30), client.Completed)
    assert len(service.requests("Complete")) == 1
    assert lost.told == []


def test_an_fn_that_goes_on_past_shutdown_timeout_is_lost_and_told(
    service: Service, other: futures.ThreadPoolExecutor
) -> None:
    lost = Lost()
    runner = service.client(shutdown_timeout=0.1, hooks=lost.hooks)
    began, finish = threading.Event(), threading.Event()

    def fn(attempt: Attempt) -> WorkResult:
        began.set()
        finish.wait(30)
        assert attempt.stop.is_set()
        return DONE

    result = other.submit(run, runner, fn)
    assert began.wait(30)
    runner.close()
    finish.set()
    with pytest.raises(client.OutcomeNotRecorded) as error:
        result.result(30)
    assert error.value.work == DONE
    assert len(lost.told) == 1


def test_a_call_that_waits_for_its_begin_is_refused_and_releases(
    service: Service, other: futures.ThreadPoolExecutor
) -> None:
    gate = service.behaviours["Begin"] = Gate()
    runner = service.client(shutdown_timeout=60)
    result = other.submit(run, runner, never)
    eventually(lambda: bool(service.requests("Begin")), "Begin has come in")
    runner.close()
    gate.opened.set()
    with pytest.raises(client.Unavailable, match="the client is closed") as error:
        result.result(30)
    assert error.value.work is None
    assert service.requests("Fail")[0].failure.code == "NOT_BEGUN"


def test_a_client_that_closes_between_the_answer_and_fn_releases(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[object] = []
    real_enter = Core.enter

    def enter(self: Core, run: object, on_close: Any) -> bool:
        entered.append(run)
        return real_enter(self, run, on_close) and len(entered) == 1

    with service.client() as runner:
        monkeypatch.setattr(Core, "enter", enter)
        with pytest.raises(client.Unavailable, match="the client is closed"):
            run(runner, never)
    assert service.requests("Fail")[0].failure.code == "NOT_BEGUN"
    assert service.requests("Complete") == []


def async_client(service: Service, **options: Any) -> AsyncClient:
    return AsyncClient(service.target, INSECURE, ClientOptions(**options))


def test_in_asyncio_fn_is_told_keeps_its_lease_and_is_recorded(service: Service) -> None:
    service.lease = 0.3
    lost = Lost()

    async def body() -> Any:
        runner = async_client(service, shutdown_timeout=60, hooks=lost.hooks)
        began = asyncio.Event()

        async def fn(attempt: AsyncAttempt) -> WorkResult:
            began.set()
            await asyncio.wait_for(attempt.stop.wait(), 30)
            assert attempt.stop_reason() is StopReason.CANCELLED
            renewals = len(service.requests("Renew"))
            await eventually_in_loop(
                lambda: len(service.requests("Renew")) > renewals + 3, "the lease is renewed on"
            )
            return DONE

        task = asyncio.ensure_future(run(runner, fn))
        await began.wait()
        await runner.close()
        return await task

    assert isinstance(asyncio.run(body()), client.Completed)
    assert lost.told == []


def test_in_asyncio_a_call_that_waits_for_its_begin_is_refused_and_releases(
    service: Service,
) -> None:
    gate = service.behaviours["Begin"] = Gate()

    async def body() -> None:
        runner = async_client(service, shutdown_timeout=60)
        task = asyncio.ensure_future(run(runner, never_async))
        await eventually_in_loop(lambda: bool(service.requests("Begin")), "Begin has come in")
        await runner.close()
        with pytest.raises(client.Unavailable, match="the client is closed"):
            await task

    asyncio.run(body())
    gate.opened.set()
    assert service.requests("Fail")[0].failure.code == "NOT_BEGUN"


def test_in_asyncio_a_pause_before_the_next_begin_ends_with_the_client(service: Service) -> None:
    service.behaviours["Begin"] = refuse(grpc.StatusCode.UNAVAILABLE, "OVERLOADED")

    async def body() -> None:
        told = asyncio.Event()
        hooks = client.Hooks(on_retry=lambda *_: told.set())
        runner = async_client(service, shutdown_timeout=60, hooks=hooks)
        task = asyncio.ensure_future(run(runner, never_async))
        await told.wait()
        await runner.close()
        with pytest.raises(client.Unavailable, match="the client is closed"):
            await task

    asyncio.run(body())
    assert service.requests("Fail") == []
