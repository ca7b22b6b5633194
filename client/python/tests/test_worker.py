"""The synchronous client's thread outlives whatever happens on it."""

from __future__ import annotations

import threading
from typing import Any, Callable

import grpc
import pytest
from grpc import _channel

import idempotency_client as client
from idempotency_client import Attempt, Hooks, OnLeaseExpiry, RunOptions, WorkResult
from idempotency_client._failure import CallFailure
from idempotency_client._flow import Call, Flow, Reply
from idempotency_client._link import INSECURE, Link
from idempotency_client._plan import config_of
from idempotency_client._worker import Job, Worker
from idempotency_client.options import CancelToken, ClientOptions
from service import DONE, KEY, REQUEST, Lost, Service, eventually, refuse

ARGUMENTS = config_of(ClientOptions()).channel_arguments


def run(runner: client.Runner, fn: Any = lambda _: DONE, **options: Any) -> client.RunResult:
    return runner.run_once(
        KEY,
        REQUEST,
        on_lease_expiry=OnLeaseExpiry.TAKE_OVER,
        fn=fn,
        options=RunOptions(**options),
    )


def renewed_thrice(service: Service) -> Callable[[Attempt], WorkResult]:
    service.lease = 0.3

    def fn(attempt: Attempt) -> WorkResult:
        eventually(lambda: len(service.requests("Renew")) >= 3, "it is renewed")
        assert not attempt.stop.is_set()
        return DONE

    return fn


class NoThreads:
    """A process in which grpcio can start no thread, as of Python 3.12 after its main thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_so = True
        real = _channel._run_channel_spin_thread

        def run(state: Any) -> None:
            if self.is_so:
                raise RuntimeError("can't start new thread")
            real(state)

        monkeypatch.setattr(_channel, "_run_channel_spin_thread", run)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, GeneratorExit])
def test_a_call_that_cannot_be_begun_is_a_try_that_failed(error: type[BaseException]) -> None:
    replies: list[Reply] = []
    ended = threading.Event()

    def send(*_: Any) -> Any:
        raise error

    def flow() -> Flow[None]:
        first = yield Call("Renew", b"", 1.0)
        second = yield Call("Renew", b"", 1.0)
        replies.extend((first, second))

    worker = Worker(send)
    assert worker.spawn(Job(flow(), lambda _: ended.set()))
    assert ended.wait(30)
    assert all(isinstance(reply, CallFailure) for reply in replies)
    assert worker.is_alive
    worker.stop(30)


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit])
def test_a_flow_and_an_end_that_raise_end_no_other(error: type[BaseException]) -> None:
    def raising(*_: Any) -> Any:
        raise error

    def broken() -> Flow[None]:
        raising()
        yield Call("Renew", b"", 1.0)

    def flow() -> Flow[None]:
        return
        yield

    ended = threading.Event()
    worker = Worker(raising)
    worker.spawn(Job(broken(), raising))
    worker.spawn(Job(flow(), lambda _: ended.set()))
    assert ended.wait(30)
    worker.stop(30)


def test_an_error_of_the_loop_itself_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    real = Worker._take
    errors = iter([MemoryError()])

    def take(self: Worker) -> Any:
        for error in errors:
            raise error
        return real(self)

    def flow() -> Flow[None]:
        return
        yield

    monkeypatch.setattr(Worker, "_take", take)
    worker = Worker(lambda *_: lambda: None)
    worker.spawn(Job(flow(), lambda _: ended.set()))
    assert ended.wait(30)
    worker.stop(30)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, GeneratorExit])
def test_a_hook_that_raises_on_the_thread_costs_nothing(
    service: Service, error: type[BaseException]
) -> None:
    refusals = iter([refuse(grpc.StatusCode.UNAVAILABLE)])

    def first_refused(request: Any, context: Any) -> Any:
        for behave in refusals:
            behave(request, context)
        del service.behaviours["Complete"]
        return service.Complete(request, context)

    def hook(*_: Any) -> None:
        raise error

    service.behaviours["Complete"] = first_refused
    with service.client(hooks=Hooks(on_retry=hook)) as runner:
        assert isinstance(run(runner), client.Completed)
        assert isinstance(run(runner), client.Completed)


def test_a_thread_that_is_dead_loses_the_record_and_tells(service: Service) -> None:
    lost = Lost()
    runner = service.client(hooks=lost.hooks)

    def fn(_: Attempt) -> WorkResult:
        core: Any = runner._core
        worker = core.worker
        worker.stop(30)
        # As if it had died without being stopped.
        worker._is_stopped = False
        return DONE

    with pytest.raises(client.OutcomeNotRecorded):
        run(runner, fn)
    assert len(lost.told) == 1
    runner.close()


def test_without_new_threads_leases_are_renewed_and_outcomes_recorded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.client() as runner:
        NoThreads(monkeypatch)
        assert isinstance(run(runner, renewed_thrice(service)), client.Completed)


def test_without_new_threads_errors_keep_their_names(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    NoThreads(monkeypatch)
    service.behaviours["Begin"] = refuse(grpc.StatusCode.PERMISSION_DENIED, "MERCHANT_FORBIDDEN")
    with service.client() as runner, pytest.raises(client.PermissionDenied) as error:
        run(runner)
    assert error.value.reason == "MERCHANT_FORBIDDEN"


def test_futures_are_used_again_once_threads_can_be_started(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_threads = NoThreads(monkeypatch)
    link = Link(service.target, INSECURE, ARGUMENTS)
    assert isinstance(link.call(Call("Complete", b"", 30.0), CancelToken()), bytes)
    assert not link._has_threads
    no_threads.is_so = False
    assert isinstance(link.call(Call("Complete", b"", 30.0), CancelToken()), bytes)
    assert link._has_threads
    link.close()
    assert isinstance(link.call(Call("Complete", b"", 30.0), CancelToken()), CallFailure)


def test_a_try_that_was_made_twice_is_not_believed_to_be_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link("127.0.0.1:1", INSECURE, ARGUMENTS)
    assert link.settle(1e12, CancelToken())
    NoThreads(monkeypatch)
    for certain in (False, True):
        reply = link.call(Call("Begin", b"", 5.0, watched=True, certain=certain), CancelToken())
        assert isinstance(reply, CallFailure)
        assert not reply.was_never_sent
    link.close()


def test_a_client_that_cannot_start_its_thread_says_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runner = service.client()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(client.Unavailable):
            run(runner)
    assert isinstance(run(runner), client.Completed)
    runner.close()
