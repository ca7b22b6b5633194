"""The asyncio client against a service in this process: what is not as in the synchronous one."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
from typing import Any, Awaitable

import grpc
import pytest

import idempotency_client as client
from idempotency_client import (
    INSECURE,
    AsyncAttempt,
    AsyncClient,
    ClientOptions,
    RunOptions,
    StopReason,
    WorkResult,
)
from service import DONE, KEY, REQUEST, Gate, Lost, Service, eventually_in_loop, refuse

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def client_of(service: Service, **options: Any) -> AsyncClient:
    return AsyncClient(service.target, INSECURE, ClientOptions(**options))


async def done(_: AsyncAttempt) -> WorkResult:
    return DONE


def run(runner: AsyncClient, fn: Any = done, **options: Any) -> Awaitable[client.RunResult]:
    return runner.run_once(
        KEY,
        REQUEST,
        on_lease_expiry=client.OnLeaseExpiry.TAKE_OVER,
        fn=fn,
        options=RunOptions(**options),
    )


def test_a_task_cancelled_before_fn_gets_its_cancelled_error_and_releases(
    service: Service,
) -> None:
    gate = service.behaviours["Begin"] = Gate()

    async def body() -> None:
        async with client_of(service) as runner:
            task = asyncio.ensure_future(run(runner))
            await eventually_in_loop(lambda: bool(service.requests("Begin")), "Begin has come in")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await eventually_in_loop(
                lambda: bool(service.requests("Fail")), "the release has come in"
            )
            gate.opened.set()

    asyncio.run(body())
    assert service.requests("Fail")[0].failure.code == "NOT_BEGUN"


def test_a_task_cancelled_in_fn_returns_what_the_work_came_to(service: Service) -> None:
    seen: list[StopReason] = []

    async def body() -> Any:
        began = asyncio.Event()

        async def fn(attempt: AsyncAttempt) -> WorkResult:
            began.set()
            await attempt.stop.wait()
            seen.append(attempt.stop_reason())
            return DONE

        async with client_of(service) as runner:
            task = asyncio.ensure_future(run(runner, fn))
            await began.wait()
            task.cancel()
            return await task

    assert isinstance(asyncio.run(body()), client.Completed)
    assert seen == [StopReason.CANCELLED]


async def an_hour_too_long(attempt: AsyncAttempt) -> WorkResult:
    """Moves the loop's clock instead of waiting."""
    loop: Any = asyncio.get_running_loop()
    real_time = loop.time
    loop.time = lambda: real_time() + 3600
    await attempt.stop.wait()
    return DONE


def test_wait_for_hands_on_what_the_work_came_to(service: Service) -> None:
    async def body() -> Any:
        async with client_of(service) as runner:
            return await asyncio.wait_for(run(runner, an_hour_too_long), 3000)

    assert isinstance(asyncio.run(body()), client.Completed)


# asyncio.timeout came with it.
if sys.version_info >= (3, 11):

    def test_a_timeout_block_can_be_used_afterwards(service: Service) -> None:
        async def body() -> Any:
            async with client_of(service) as runner:
                async with asyncio.timeout(3000):
                    result = await run(runner, an_hour_too_long)
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                async with asyncio.timeout(3000):
                    await run(runner)
                return result

        assert isinstance(asyncio.run(body()), client.Completed)


def test_a_cancelled_error_of_fn_alone_is_a_failure(service: Service) -> None:
    async def fn(_: AsyncAttempt) -> WorkResult:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        return DONE

    async def body() -> Any:
        async with client_of(service) as runner:
            return await run(runner, fn)

    result = asyncio.run(body())
    assert isinstance(result, client.Failed)
    assert result.failure.disposition is client.Disposition.UNKNOWN
    assert isinstance(result.exception, asyncio.CancelledError)


def test_classify_is_asked_about_a_cancelled_error_too(service: Service) -> None:
    async def fn(_: AsyncAttempt) -> WorkResult:
        raise asyncio.CancelledError

    async def body() -> Any:
        async with client_of(service) as runner:
            return await run(runner, fn, classify=lambda _: client.Disposition.NOT_APPLIED)

    result = asyncio.run(body())
    assert isinstance(result, client.Failed)
    assert result.failure.disposition is client.Disposition.NOT_APPLIED


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_comes_from_outside_is_recorded_as_unknown_and_raised_again(
    service: Service, crash: type[BaseException]
) -> None:
    async def fn(_: AsyncAttempt) -> WorkResult:
        raise crash

    async def body() -> BaseException:
        async with client_of(service) as runner:
            try:
                await run(runner, fn)
            except BaseException as error:  # noqa: BLE001 - the point of it
                return error
        raise AssertionError("nothing was raised")

    assert isinstance(asyncio.run(body()), crash)
    (fail,) = service.requests("Fail")
    assert fail.failure.disposition == 3


def test_a_loop_that_ends_in_fn_leaves_an_unknown_end(service: Service) -> None:
    async def body() -> None:
        began = asyncio.Event()

        async def fn(_: AsyncAttempt) -> WorkResult:
            began.set()
            await asyncio.sleep(3600)
            return DONE

        runner = client_of(service)
        task = asyncio.ensure_future(run(runner, fn))
        await began.wait()
        # asyncio.run cancels what is left, `fn`'s task as well as its caller's.
        body.task = task  # type: ignore[attr-defined]

    asyncio.run(body())
    assert body.task.cancelled()  # type: ignore[attr-defined]
    (fail,) = service.requests("Fail")
    assert (fail.failure.disposition, fail.failure.code) == (3, "EXCEPTION")


def test_a_caller_that_leaves_while_it_is_recorded_is_told_the_truth(service: Service) -> None:
    gate = service.behaviours["Complete"] = Gate()
    lost = Lost()

    async def body() -> client.OutcomeNotRecorded:
        async with client_of(service, hooks=lost.hooks) as runner:
            task = asyncio.ensure_future(run(runner))
            await eventually_in_loop(
                lambda: bool(service.requests("Complete")), "Complete has come in"
            )
            task.cancel()
            with pytest.raises(client.OutcomeNotRecorded) as error:
                await task
            del service.behaviours["Complete"]
            gate.opened.set()
        return error.value

    error = asyncio.run(body())
    assert error.still_recording
    assert error.work == DONE
    assert lost.told == []
    assert len({one.SerializeToString() for one in service.requests("Complete")}) == 1


def test_fn_sees_the_callers_context(service: Service) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen: list[str] = []

    async def fn(_: AsyncAttempt) -> WorkResult:
        seen.append(variable.get())
        return DONE

    async def body() -> None:
        variable.set("trace")
        async with client_of(service) as runner:
            await run(runner, fn)

    asyncio.run(body())
    assert seen == ["trace"]


def test_a_plain_function_serves_as_well(service: Service) -> None:
    async def body() -> Any:
        async with client_of(service) as runner:
            return await run(runner, lambda _: DONE)

    assert isinstance(asyncio.run(body()), client.Completed)


def test_many_tasks_share_a_client(service: Service) -> None:
    async def body() -> list[client.RunResult]:
        async with client_of(service) as runner:
            return await asyncio.gather(*(run(runner) for _ in range(200)))

    assert all(isinstance(result, client.Completed) for result in asyncio.run(body()))
    assert len({request.attempt_id for request in service.requests("Begin")}) == 200


def test_close_gives_up_after_shutdown_timeout_and_tells_the_hook(service: Service) -> None:
    service.behaviours["Complete"] = refuse(UNAVAILABLE)
    lost = Lost()

    async def body() -> None:
        runner = client_of(service, hooks=lost.hooks, shutdown_timeout=0.2)

        async def fn(_: AsyncAttempt) -> WorkResult:
            task.cancel()
            return DONE

        task = asyncio.ensure_future(run(runner, fn))
        with pytest.raises(client.OutcomeNotRecorded):
            await task
        assert lost.told == []
        await runner.close()

    asyncio.run(body())
    ((key, work, error),) = lost.told
    assert (key, work) == (KEY, DONE)
    assert isinstance(error, client.OutcomeNotRecorded)


def test_work_that_ends_after_close_is_lost_and_told(service: Service) -> None:
    lost = Lost()

    async def body() -> None:
        runner = client_of(service, hooks=lost.hooks, shutdown_timeout=0)

        async def fn(_: AsyncAttempt) -> WorkResult:
            await runner.close()
            return DONE

        with pytest.raises(client.OutcomeNotRecorded):
            await run(runner, fn)

    asyncio.run(body())
    assert len(lost.told) == 1


def test_close_ends_calls_that_have_not_begun_their_work(service: Service) -> None:
    gate = service.behaviours["Begin"] = Gate()

    async def body() -> None:
        runner = client_of(service, shutdown_timeout=0)
        task = asyncio.ensure_future(run(runner))
        await eventually_in_loop(lambda: bool(service.requests("Begin")), "Begin has come in")
        await runner.close()
        with pytest.raises(client.Unavailable):
            await task
        gate.opened.set()
        with pytest.raises(client.Unavailable):
            await run(runner)
        with pytest.raises(client.Unavailable):
            await runner.lookup(KEY)

    asyncio.run(body())


def test_releases_are_bounded_and_outcomes_are_not(service: Service) -> None:
    service.behaviours["Begin"] = refuse(UNAVAILABLE)

    async def body() -> None:
        async with client_of(service, max_background_records=0) as runner:
            with pytest.raises(client.Unavailable):
                await run(runner, start_timeout=0.01)
            del service.behaviours["Begin"]
            assert isinstance(await run(runner), client.Completed)

    asyncio.run(body())
    assert service.requests("Fail") == []


def test_another_loop_or_a_child_process_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = client_of(service)

    async def first() -> None:
        await run(runner)
        with monkeypatch.context() as patch:
            parent = os.getpid()
            patch.setattr(os, "getpid", lambda: parent + 1)
            with pytest.raises(client.Internal, match="fork"):
                await run(runner)
        # The loop ends without close, as a careless program's does.

    async def second() -> None:
        with pytest.raises(client.Internal, match="loop"):
            await run(runner)

    asyncio.run(first())
    asyncio.run(second())


def test_lease_lost_while_fn_runs_sets_stop(service: Service) -> None:
    service.lease = 0.3
    service.behaviours["Renew"] = refuse(grpc.StatusCode.ABORTED, "LEASE_LOST")

    async def fn(attempt: AsyncAttempt) -> WorkResult:
        await asyncio.wait_for(attempt.stop.wait(), 30)
        assert attempt.stop_reason() is StopReason.LEASE_LOST
        return DONE

    async def body() -> Any:
        async with client_of(service) as runner:
            return await run(runner, fn)

    assert isinstance(asyncio.run(body()), client.Completed)


def test_whatever_grpc_raises_is_a_try_that_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Lost()
    mistakes = iter([RuntimeError(), ValueError()])

    async def fn(_: AsyncAttempt) -> WorkResult:
        core: Any = runner._core
        calls = core._calls._calls
        real = calls["Complete"]

        def complete(*given: Any, **named: Any) -> Any:
            for mistake in mistakes:
                raise mistake
            return real(*given, **named)

        monkeypatch.setitem(calls, "Complete", complete)
        return DONE

    runner = client_of(service, hooks=lost.hooks)

    async def body() -> Any:
        async with runner:
            return await run(runner, fn)

    assert isinstance(asyncio.run(body()), client.Completed)
    assert lost.told == []


def test_spans_of_ten_thousand_years_are_no_error(service: Service) -> None:
    longest = 315_576_000_000

    async def body() -> Any:
        async with client_of(service, rpc_timeout=longest, record_timeout=longest) as runner:
            return await run(runner, start_timeout=longest, max_duration=longest, timeout=longest)

    assert isinstance(asyncio.run(body()), client.Completed)
