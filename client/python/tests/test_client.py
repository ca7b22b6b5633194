"""The synchronous client against a service in this process."""

from __future__ import annotations

import logging
import threading
from concurrent import futures
from datetime import timedelta
from typing import Any

import grpc
import pytest

import idempotency_client as client
from idempotency_client import OnLeaseExpiry, RunOptions, WorkResult
from service import DONE, KEY, REQUEST, Gate, Lost, Service, eventually, refuse

TAKE_OVER = OnLeaseExpiry.TAKE_OVER
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def run(runner: client.Runner, fn: Any = lambda _: DONE, **options: Any) -> client.RunResult:
    return runner.run_once(
        KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn, options=RunOptions(**options)
    )


def test_fn_runs_on_the_callers_thread(service: Service) -> None:
    threads: list[threading.Thread] = []

    def fn(_: client.Attempt) -> WorkResult:
        threads.append(threading.current_thread())
        return DONE

    with service.client() as runner:
        run(runner, fn)
    assert threads == [threading.current_thread()]


def test_nothing_is_sent_before_the_first_call_and_after_the_last(service: Service) -> None:
    with service.client():
        pass
    assert service.calls == []


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_comes_from_outside_is_recorded_as_unknown_and_raised_again(
    service: Service, crash: type[BaseException]
) -> None:
    def fn(_: client.Attempt) -> WorkResult:
        raise crash

    asked: list[BaseException] = []

    def classify(error: BaseException) -> client.Disposition:
        asked.append(error)
        return client.Disposition.NOT_APPLIED

    with service.client() as runner, pytest.raises(crash):
        run(runner, fn, classify=classify)
    (fail,) = service.requests("Fail")
    assert fail.failure.disposition == 3
    assert asked == []


def test_a_crash_is_raised_again_although_the_record_is_late(service: Service) -> None:
    gate = service.behaviours["Fail"] = Gate()

    def fn(_: client.Attempt) -> WorkResult:
        raise KeyboardInterrupt

    runner = service.client(shutdown_timeout=30)
    with pytest.raises(KeyboardInterrupt):
        run(runner, fn)
    del service.behaviours["Fail"]
    gate.opened.set()
    runner.close()
    assert len({request.SerializeToString() for request in service.requests("Fail")}) == 1
    assert len(service.requests("Fail")) == 2


def test_an_interrupted_start_releases_the_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = service.behaviours["Begin"] = Gate()
    real_wait = threading.Event.wait
    main = threading.main_thread()

    def interrupted(self: threading.Event, timeout: Any = None) -> bool:
        # As Ctrl-C does: in the main thread, in the middle of the wait for the answer.
        if threading.current_thread() is main and service.requests("Begin"):
            raise KeyboardInterrupt
        if threading.current_thread() is main and timeout is not None and timeout > 1:
            eventually(lambda: bool(service.requests("Begin")), "Begin has come in")
            raise KeyboardInterrupt
        return real_wait(self, timeout)

    runner = service.client()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(runner)
    eventually(lambda: bool(service.requests("Fail")), "the release has come in")
    gate.opened.set()
    runner.close()
    assert service.requests("Fail")[0].failure.code == "NOT_BEGUN"


@pytest.mark.parametrize("returned", [None, "done", 201, client.Outcome(200), {}])
def test_what_is_no_work_result_is_unknown(service: Service, returned: Any) -> None:
    with service.client() as runner:
        result = run(runner, lambda _: returned)
    assert isinstance(result, client.Failed)
    assert result.failure.disposition is client.Disposition.UNKNOWN
    assert isinstance(result.exception, TypeError)


@pytest.mark.parametrize("answer", [None, "final", 1])
def test_classify_that_answers_anything_else_knows_nothing(service: Service, answer: Any) -> None:
    def fn(_: client.Attempt) -> WorkResult:
        raise ValueError

    with service.client() as runner:
        result = run(runner, fn, classify=lambda _: answer)
    assert isinstance(result, client.Failed)
    assert result.failure.disposition is client.Disposition.UNKNOWN


def test_classify_that_raises_knows_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def fn(_: client.Attempt) -> WorkResult:
        raise ValueError("4111 1111 1111 1111")

    def classify(error: BaseException) -> client.Disposition:
        raise RuntimeError(str(error))

    with service.client() as runner:
        result = run(runner, fn, classify=classify)
    assert isinstance(result, client.Failed)
    assert result.failure.disposition is client.Disposition.UNKNOWN
    assert isinstance(result.exception, ValueError)
    assert "classify raised RuntimeError" in caplog.text
    assert "4111" not in caplog.text


def test_hooks_that_raise_are_named_in_the_log_without_their_words(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("4111 1111 1111 1111")

    service.behaviours["Complete"] = refuse(grpc.StatusCode.ABORTED, "LEASE_LOST")
    hooks = client.Hooks(on_outcome_not_recorded=broken)
    with service.client(hooks=hooks) as runner, pytest.raises(client.LeaseLost):
        run(runner)
    assert "a hook raised RuntimeError" in caplog.text
    assert "4111" not in caplog.text


def test_nothing_of_an_exceptions_text_leaves_the_process(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def fn(_: client.Attempt) -> WorkResult:
        raise ValueError("4111 1111 1111 1111")

    service.behaviours["Fail"] = refuse(grpc.StatusCode.ABORTED, "LEASE_LOST")
    with service.client() as runner, pytest.raises(client.LeaseLost) as error:
        run(runner, fn)
    assert "4111" not in str(service.requests("Fail"))
    assert "4111" not in str(error.value)
    for secret in ("order-7", "acme", service.requests("Begin")[0].attempt_id, "4111"):
        assert secret not in caplog.text


def test_an_error_after_the_work_has_what_fn_raised(service: Service) -> None:
    mistake = ValueError("x")

    def fn(_: client.Attempt) -> WorkResult:
        raise mistake

    service.behaviours["Fail"] = refuse(grpc.StatusCode.ABORTED, "LEASE_LOST")
    lost = Lost()
    with service.client(hooks=lost.hooks) as runner, pytest.raises(client.LeaseLost) as error:
        run(runner, fn)
    assert error.value.work is not None
    assert error.value.exception is mistake
    assert error.value.__cause__ is mistake
    assert lost.told == [(KEY, error.value.work, error.value)]


def test_metadata_of_key_reused_comes_through(service: Service) -> None:
    service.behaviours["Begin"] = refuse(
        grpc.StatusCode.FAILED_PRECONDITION, "KEY_REUSED", record_id="r", state="COMPLETED"
    )
    with service.client() as runner, pytest.raises(client.KeyReused) as error:
        run(runner)
    assert error.value.metadata == {"record_id": "r", "state": "COMPLETED"}
    assert error.value.work is None


def test_a_token_that_is_cancelled_in_fn_stops_it(service: Service) -> None:
    token = client.CancelToken()

    def fn(attempt: client.Attempt) -> WorkResult:
        token.cancel()
        assert attempt.stop.is_set()
        assert attempt.stop_reason() is client.StopReason.CANCELLED
        return DONE

    with service.client() as runner:
        assert isinstance(run(runner, fn, cancel=token), client.Completed)


def test_an_fn_that_has_ended_is_not_stopped_any_more(service: Service) -> None:
    token = client.CancelToken()
    kept: list[client.Attempt] = []

    def fn(attempt: client.Attempt) -> WorkResult:
        kept.append(attempt)
        return DONE

    with service.client() as runner:
        run(runner, fn, cancel=token)
        token.cancel()
    assert not kept[0].stop.is_set()


def test_many_threads_share_a_client(service: Service) -> None:
    runs: list[int] = []
    with service.client() as runner, futures.ThreadPoolExecutor(16) as threads:
        results = list(
            threads.map(
                lambda at: runner.run_once(
                    client.Key("acme", f"order-{at}"),
                    REQUEST,
                    on_lease_expiry=TAKE_OVER,
                    fn=lambda _: runs.append(at) or DONE,  # type: ignore[func-returns-value]
                ),
                range(200),
            )
        )
    assert all(isinstance(result, client.Completed) for result in results)
    assert sorted(runs) == list(range(200))
    assert len({request.attempt_id for request in service.requests("Begin")}) == 200


def test_close_gives_up_after_shutdown_timeout_and_tells_the_hook(service: Service) -> None:
    service.behaviours["Complete"] = refuse(UNAVAILABLE)
    lost = Lost()
    runner = service.client(hooks=lost.hooks, shutdown_timeout=0.2)
    token = client.CancelToken()

    def fn(_: client.Attempt) -> WorkResult:
        token.cancel()
        return DONE

    with pytest.raises(client.OutcomeNotRecorded) as error:
        run(runner, fn, cancel=token)
    assert error.value.still_recording
    assert lost.told == []
    runner.close()
    ((key, work, told),) = lost.told
    assert (key, work) == (KEY, DONE)
    assert isinstance(told, client.OutcomeNotRecorded)
    assert not told.still_recording


def test_work_that_ends_after_close_is_lost_and_told(service: Service) -> None:
    lost = Lost()
    runner = service.client(hooks=lost.hooks, shutdown_timeout=0)

    def fn(_: client.Attempt) -> WorkResult:
        runner.close()
        return DONE

    with pytest.raises(client.OutcomeNotRecorded) as error:
        run(runner, fn)
    assert error.value.work == DONE
    assert len(lost.told) == 1


def test_a_closed_client_does_nothing(service: Service) -> None:
    runner = service.client()
    run(runner)
    runner.close()
    runner.close()
    with pytest.raises(client.Unavailable):
        run(runner)
    with pytest.raises(client.Unavailable):
        runner.lookup(KEY)
    assert len(service.requests("Begin")) == 1


def test_releases_are_bounded_and_outcomes_are_not(service: Service) -> None:
    service.behaviours["Begin"] = refuse(UNAVAILABLE)
    with service.client(max_background_records=0) as runner:
        with pytest.raises(client.Unavailable):
            run(runner, start_timeout=0.01)
        del service.behaviours["Begin"]
        assert isinstance(run(runner), client.Completed)
    assert service.requests("Fail") == []


def test_a_release_below_the_bound_is_sent(service: Service) -> None:
    service.behaviours["Begin"] = refuse(UNAVAILABLE)
    with service.client(max_background_records=1) as runner, pytest.raises(client.Unavailable):
        run(runner, start_timeout=0.01)
    assert [request.failure.code for request in service.requests("Fail")] == ["NOT_BEGUN"]


def test_a_service_that_hangs_is_given_up(service: Service) -> None:
    gate = service.behaviours["Begin"] = Gate()
    with service.client(rpc_timeout=0.2, shutdown_timeout=0) as runner:
        with pytest.raises(client.DeadlineExceeded):
            run(runner, start_timeout=0.3)
        gate.opened.set()


def test_lookup_is_repeated_and_named(service: Service) -> None:
    service.behaviours["Lookup"] = refuse(grpc.StatusCode.NOT_FOUND, "RECORD_NOT_FOUND")
    told: list[str] = []
    hooks = client.Hooks(on_retry=lambda rpc, _: told.append(rpc))
    with service.client(hooks=hooks) as runner:
        with pytest.raises(client.RecordNotFound):
            runner.lookup(KEY)
        once = iter([refuse(UNAVAILABLE, "OVERLOADED")])

        def first_refused(request: Any, context: Any) -> Any:
            for behave in once:
                return behave(request, context)
            del service.behaviours["Lookup"]
            return service.Lookup(request, context)

        service.behaviours["Lookup"] = first_refused
        assert runner.lookup(KEY, include_body=True).record_id == "r"
    assert told == ["Lookup"]
    assert service.requests("Lookup")[-1].include_outcome


def test_a_lookup_answer_that_nobody_can_read_is_internal(service: Service) -> None:
    from idempotency_client._generated import idempotency_service_pb2 as pb  # noqa: PLC0415

    service.behaviours["Lookup"] = lambda *_: pb.LookupResponse()
    with service.client() as runner, pytest.raises(client.Internal):
        runner.lookup(KEY)


def test_business_keys_carry_their_ttl_and_options_override_it(service: Service) -> None:
    key = client.Key.business("acme", "pay", "7")
    with service.client() as runner:
        for options in (RunOptions(), RunOptions(ttl=timedelta(minutes=2))):
            runner.run_once(
                key, REQUEST, on_lease_expiry=TAKE_OVER, fn=lambda _: DONE, options=options
            )
        run(runner)
    asked = service.requests("Begin")
    assert [request.ttl.seconds for request in asked[:2]] == [30 * 24 * 3600, 120]
    assert not asked[2].HasField("ttl")


def test_lease_remaining_is_what_is_left(service: Service) -> None:
    seen: list[timedelta] = []

    def fn(attempt: client.Attempt) -> WorkResult:
        seen.append(attempt.lease_remaining())
        return DONE

    with service.client() as runner:
        run(runner, fn)
    assert timedelta(seconds=30) < seen[0] <= timedelta(seconds=60)


def test_spans_of_ten_thousand_years_are_no_error(service: Service) -> None:
    longest = 315_576_000_000
    unprotected = client.OnUnavailable.RUN_UNPROTECTED
    with service.client(rpc_timeout=longest, record_timeout=longest) as runner:
        result = run(
            runner,
            start_timeout=longest,
            max_duration=longest,
            timeout=longest,
            on_unavailable=unprotected,
        )
    assert isinstance(result, client.Completed)


@pytest.mark.parametrize("mistake", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_classify_that_raises_whatever_costs_no_outcome(
    service: Service, mistake: type[BaseException]
) -> None:
    def fn(_: client.Attempt) -> WorkResult:
        raise ValueError

    def classify(_: BaseException) -> client.Disposition:
        raise mistake

    with service.client() as runner, futures.ThreadPoolExecutor(1) as other:
        result = other.submit(run, runner, fn, classify=classify).result(30)
        assert isinstance(result, client.Failed)
        assert result.failure.disposition is client.Disposition.UNKNOWN
        if mistake is not GeneratorExit:
            # In the main thread it is for real; the work is recorded all the same.
            with pytest.raises(mistake):
                run(runner, fn, classify=classify)
            assert len(service.requests("Fail")) == 2
