"""The runners in memory answer as the service does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable

import pytest

import idempotency_client as client
from idempotency_client import (
    Disposition,
    Key,
    OnLeaseExpiry,
    Outcome,
    Payload,
    RecordState,
    Request,
    RunOptions,
    WorkResult,
)
from idempotency_client.testing import AsyncFakeRunner, FakeRunner
from service import Lost

KEY = Key("acme", "order-7")
REQUEST = Request("POST /payments", Payload(b'{"amount":50}', "application/json"))
DONE = WorkResult.completed(Outcome(201, [("A", b"b")], body=b"done"))
TAKE_OVER, HOLD = OnLeaseExpiry.TAKE_OVER, OnLeaseExpiry.HOLD


class Fake:
    """Either fake, called as the synchronous one."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner

    def run(
        self,
        work: Any = DONE,
        *,
        request: Request = REQUEST,
        on_lease_expiry: OnLeaseExpiry = TAKE_OVER,
        **options: Any,
    ) -> Any:
        def fn(attempt: Any) -> WorkResult:
            returned: WorkResult = work(attempt) if callable(work) else work
            return returned

        async def async_fn(attempt: Any) -> WorkResult:
            return fn(attempt)

        is_async = isinstance(self.runner, AsyncFakeRunner)
        result = self.runner.run_once(
            KEY,
            request,
            on_lease_expiry=on_lease_expiry,
            fn=async_fn if is_async else fn,
            options=RunOptions(**options),
        )
        return asyncio.run(result) if is_async else result

    def lookup(self, *, include_body: bool = False) -> client.Record:
        found = self.runner.lookup(KEY, include_body=include_body)
        record: client.Record = asyncio.run(found) if asyncio.iscoroutine(found) else found
        return record


@pytest.fixture(params=[FakeRunner, AsyncFakeRunner])
def fake(request: pytest.FixtureRequest) -> Fake:
    return Fake(request.param())


def raising(error: BaseException) -> Callable[[Any], WorkResult]:
    def fn(_: Any) -> WorkResult:
        raise error

    return fn


def seeing(seen: list[Any], work: WorkResult = DONE) -> Callable[[Any], WorkResult]:
    def fn(attempt: Any) -> WorkResult:
        seen.append(attempt)
        return work

    return fn


def never(_: Any) -> WorkResult:
    raise AssertionError("fn ran")


def test_replays_byte_for_byte(fake: Fake) -> None:
    first, second = fake.run(), fake.run(never)
    assert isinstance(first, client.Completed)
    assert isinstance(second, client.Replayed)
    assert second.outcome == first.outcome == DONE.outcome
    assert second.record_id == first.record_id
    assert second.finish_time == first.finish_time


def test_a_final_failure_is_replayed(fake: Fake) -> None:
    work = WorkResult.final("DECLINED", "no cover", Outcome(402))
    assert isinstance(fake.run(work), client.Failed)
    replayed = fake.run(never)
    assert isinstance(replayed, client.Replayed)
    assert replayed.failure == work.failure
    assert replayed.outcome is None


def test_not_applied_frees_the_key(fake: Fake) -> None:
    fake.run(WorkResult.not_applied("BUSY", "later"))
    assert fake.lookup().state is RecordState.RELEASED
    seen: list[Any] = []
    fake.run(seeing(seen))
    assert (seen[0].attempt_number, seen[0].unknown_attempts) == (2, 0)
    assert seen[0].previous_attempt.failure.disposition is Disposition.NOT_APPLIED


def test_an_unknown_end_is_told_to_the_next_with_the_same_downstream_key(fake: Fake) -> None:
    seen: list[Any] = []

    def work(attempt: Any) -> WorkResult:
        seen.append(attempt)
        return WorkResult.unknown("T", "m") if len(seen) == 1 else DONE

    fake.run(work)
    assert fake.lookup().state is RecordState.ABANDONED
    assert isinstance(fake.run(work), client.Completed)
    assert seen[1].unknown_attempts == 1
    assert seen[1].downstream_key == seen[0].downstream_key
    assert seen[1].fencing_token > seen[0].fencing_token


def test_under_hold_nobody_starts_after_an_unknown_end(fake: Fake) -> None:
    fake.run(WorkResult.unknown("T", "m"), on_lease_expiry=HOLD)
    with pytest.raises(client.NeedsResolution) as error:
        fake.run(never)
    assert error.value.reason == "NEEDS_RESOLUTION"


def test_another_request_is_key_reused(fake: Fake) -> None:
    fake.run()
    for request in (
        Request("POST /refunds", REQUEST.content),
        Request("POST /payments", Payload(b'{"amount":51}', "application/json")),
        Request("POST /payments", client.Fingerprint(b"\0" * 32)),
    ):
        with pytest.raises(client.KeyReused):
            fake.run(never, request=request)


@pytest.mark.parametrize(
    ("one", "other", "content_type", "are_same"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2.0, "a": 1e0 }', "application/json", True),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', "application/x+JSON; charset=utf-8", True),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', "text/plain", False),
        (b'{"a":1}', b'{"a":true}', "application/json", False),
        (b'{"a":"1"}', b'{"a":1}', "application/json", False),
        (b'{"a":0}', b'{"a":-0.0}', "application/json", True),
        (b'{"a":0.1}', b'{"a":0.10000000000000000001}', "application/json", False),
        (b"[1,2]", b"[2,1]", "application/json", False),
        (b"no json", b"no json", "application/json", True),
        (b"no json", b"none", "application/json", False),
    ],
)
def test_json_is_compared_as_json(
    fake: Fake, one: bytes, other: bytes, content_type: str, *, are_same: bool
) -> None:
    fake.run(request=Request("o", Payload(one, content_type)))
    again = Request("o", Payload(other, content_type))
    if are_same:
        assert isinstance(fake.run(never, request=again), client.Replayed)
    else:
        with pytest.raises(client.KeyReused):
            fake.run(never, request=again)


def test_fail_next_start_is_a_service_that_is_away_once(fake: Fake) -> None:
    fake.runner.fail_next_start(client.Unavailable("away"))
    with pytest.raises(client.Unavailable) as error:
        fake.run(never)
    assert error.value.work is None
    assert isinstance(fake.run(), client.Completed)


def test_fail_next_start_takes_errors_only(fake: Fake) -> None:
    with pytest.raises(client.InvalidField):
        fake.runner.fail_next_start(ValueError())


@pytest.mark.parametrize("make", [FakeRunner, AsyncFakeRunner])
def test_lose_next_record_ends_unknown_and_tells_the_hook(make: Any) -> None:
    lost = Lost()
    fake = Fake(make(lost.hooks))
    fake.runner.lose_next_record()
    with pytest.raises(client.OutcomeNotRecorded) as error:
        fake.run()
    assert error.value.work == DONE
    assert lost.told == [(KEY, DONE, error.value)]
    seen: list[Any] = []
    assert isinstance(fake.run(seeing(seen)), client.Completed)
    assert seen[0].unknown_attempts == 1


def test_crash_attempt_is_a_process_that_died(fake: Fake) -> None:
    fake.runner.crash_attempt(KEY, REQUEST, TAKE_OVER)
    assert fake.lookup().state is RecordState.ABANDONED
    seen: list[Any] = []
    fake.run(seeing(seen))
    assert (seen[0].attempt_number, seen[0].unknown_attempts) == (2, 1)
    assert seen[0].previous_attempt.failure is None


def test_crash_attempt_under_hold(fake: Fake) -> None:
    fake.runner.crash_attempt(KEY, REQUEST, HOLD)
    with pytest.raises(client.NeedsResolution):
        fake.run(never)


def test_what_fn_raises_is_unknown_unless_classify_knows(fake: Fake) -> None:
    failed = fake.run(raising(ValueError("4111")))
    assert failed.failure.disposition is Disposition.UNKNOWN
    assert (failed.failure.code, "4111" in failed.failure.message) == ("EXCEPTION", False)
    assert isinstance(failed.exception, ValueError)
    failed = fake.run(raising(ValueError()), classify=lambda _: Disposition.FINAL)
    assert failed.failure.disposition is Disposition.FINAL


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit])
def test_what_comes_from_outside_is_unknown_and_raised_again(crash: type[BaseException]) -> None:
    fake = Fake(FakeRunner())
    with pytest.raises(crash):
        fake.run(raising(crash()))
    assert fake.lookup().state is RecordState.ABANDONED


def test_lookup(fake: Fake) -> None:
    with pytest.raises(client.RecordNotFound):
        fake.lookup()
    fake.run(labels={"order": "7"})
    record = fake.lookup()
    assert record.state is RecordState.COMPLETED
    assert record.operation == "POST /payments"
    assert record.labels == {"order": "7"}
    assert record.outcome is not None
    assert (record.outcome.body, record.outcome.body_size) == (None, 4)
    assert fake.lookup(include_body=True).outcome == DONE.outcome


def test_two_keys_are_two_records() -> None:
    runner = FakeRunner()
    for number in range(2):
        result = runner.run_once(
            Key("acme", f"{number}"), REQUEST, on_lease_expiry=TAKE_OVER, fn=lambda _: DONE
        )
        assert isinstance(result, client.Completed)


def test_another_thread_is_told_in_progress_or_waits() -> None:
    runner = FakeRunner()
    began, finish = threading.Event(), threading.Event()

    def fn(_: client.Attempt) -> WorkResult:
        began.set()
        finish.wait(30)
        return DONE

    def call(**options: Any) -> Any:
        return runner.run_once(
            KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=RunOptions(**options)
        )

    first = threading.Thread(target=call)
    first.start()
    began.wait(30)
    assert isinstance(call(), client.InProgress)
    results: list[Any] = []
    second = threading.Thread(target=lambda: results.append(call(wait_timeout=30)))
    second.start()
    finish.set()
    first.join(30)
    second.join(30)
    assert isinstance(results[0], client.Replayed)


def test_another_task_is_told_in_progress_or_waits() -> None:
    async def body() -> None:
        runner = AsyncFakeRunner()
        began, finish = asyncio.Event(), asyncio.Event()

        async def fn(_: client.AsyncAttempt) -> WorkResult:
            began.set()
            await finish.wait()
            return DONE

        def call(**options: Any) -> Any:
            return asyncio.ensure_future(
                runner.run_once(
                    KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=RunOptions(**options)
                )
            )

        first = call()
        await began.wait()
        assert isinstance(await call(), client.InProgress)
        second = call(wait_timeout=30)
        await asyncio.sleep(0)
        finish.set()
        assert isinstance(await first, client.Completed)
        assert isinstance(await second, client.Replayed)

    asyncio.run(body())


def test_a_token_stops_fn_of_the_fake() -> None:
    token = client.CancelToken()

    def fn(attempt: client.Attempt) -> WorkResult:
        token.cancel()
        assert attempt.stop.is_set()
        assert attempt.stop_reason() is client.StopReason.CANCELLED
        return DONE

    runner = FakeRunner()
    options = RunOptions(cancel=token)
    result = runner.run_once(KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=options)
    assert isinstance(result, client.Completed)
    with pytest.raises(client.Cancelled):
        runner.run_once(KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=options)


def test_a_cancelled_task_stops_fn_of_the_fake() -> None:
    async def body() -> Any:
        runner = AsyncFakeRunner()
        began = asyncio.Event()

        async def fn(attempt: client.AsyncAttempt) -> WorkResult:
            began.set()
            await attempt.stop.wait()
            return DONE

        task = asyncio.ensure_future(
            runner.run_once(KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn)
        )
        await began.wait()
        task.cancel()
        return await task

    assert isinstance(asyncio.run(body()), client.Completed)


@pytest.mark.parametrize("reason", ["", "STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"])
@pytest.mark.parametrize("make", [FakeRunner, AsyncFakeRunner])
def test_a_service_that_is_away_lets_fn_run_unprotected(make: Any, reason: str) -> None:
    told: list[Any] = []
    fake = Fake(make(client.Hooks(on_unprotected=lambda *given: told.append(given))))
    error = client.Unavailable(reason=reason)
    fake.runner.fail_next_start(error)
    seen: list[Any] = []
    unprotected = client.OnUnavailable.RUN_UNPROTECTED
    assert fake.run(seeing(seen), on_unavailable=unprotected) == client.Unprotected(DONE)
    (attempt,) = seen
    assert (attempt.unprotected, attempt.attempt_number, attempt.downstream_key) == (True, 0, "")
    assert told == [(KEY, error)]
    assert fake.runner.unprotected_runs == 1
    with pytest.raises(client.RecordNotFound):
        fake.lookup()
    assert isinstance(fake.run(), client.Completed)


@pytest.mark.parametrize(
    "error", [client.Unavailable(reason="COMMIT_UNKNOWN"), client.DeadlineExceeded()]
)
def test_a_fake_in_doubt_runs_nothing_unprotected(
    fake: Fake, error: client.IdempotencyError
) -> None:
    fake.runner.fail_next_start(error)
    with pytest.raises(type(error)):
        fake.run(never, on_unavailable=client.OnUnavailable.RUN_UNPROTECTED)
    assert fake.runner.unprotected_runs == 0
