"""How it is told that a call was never sent, against ports that nobody or somebody listens to."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import grpc
import pytest

import idempotency_client as client
from idempotency_client import _aio_link
from idempotency_client._failure import CallFailure
from idempotency_client._flow import Call
from idempotency_client._link import INSECURE, Link
from idempotency_client._plan import config_of
from idempotency_client.options import CancelToken, ClientOptions, OnUnavailable, RunOptions
from service import DONE, KEY, REQUEST, Gate, Service

ARGUMENTS = config_of(ClientOptions()).channel_arguments
CERTAIN = Call("Begin", b"", 5.0, watched=True, certain=True)
UNPROTECTED = RunOptions(on_unavailable=OnUnavailable.RUN_UNPROTECTED, start_timeout=1)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens, as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def settled(link: Link) -> Link:
    assert link.settle(1e12, CancelToken())
    return link


def test_a_try_of_a_channel_that_is_down_was_never_sent(nobody: str) -> None:
    link = settled(Link(nobody, INSECURE, ARGUMENTS))
    for call in (CERTAIN, Call("Begin", b"", 5.0, watched=True)):
        reply = link.call(call, CancelToken())
        assert isinstance(reply, CallFailure)
        assert reply.was_never_sent
    link.close()


def test_it_is_not_asked_where_it_does_not_matter(nobody: str) -> None:
    link = settled(Link(nobody, INSECURE, ARGUMENTS))
    reply = link.call(Call("Begin", b"", 5.0), CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    link.close()


@pytest.mark.parametrize("certain", [False, True])
def test_the_first_try_of_an_idle_channel_is_in_doubt(nobody: str, *, certain: bool) -> None:
    link = Link(nobody, INSECURE, ARGUMENTS)
    reply = link.call(Call("Begin", b"", 5.0, watched=True, certain=certain), CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    link.close()


def test_a_connection_that_came_and_went_is_seen(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = settled(Link(nobody, INSECURE, ARGUMENTS))

    class Flapped:
        def __init__(self, channel: Any) -> None:
            self._channel = channel

        def check_connectivity_state(self, try_to_connect: bool) -> int:
            state: int = self._channel.check_connectivity_state(try_to_connect)
            return state

        def close(self, *given: Any) -> None:
            self._channel.close(*given)

        def watch_connectivity_state(self, *_: Any) -> Any:
            return type("Event", (), {"success": True})

    channel: Any = link._channel
    monkeypatch.setattr(channel, "_channel", Flapped(channel._channel))
    reply = link.call(CERTAIN, CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    link.close()


def test_a_connection_that_came_is_seen_also_where_less_depends_on_it(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = settled(Link(nobody, INSECURE, ARGUMENTS))
    down, ready = grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.READY
    states = iter([down.value[0], ready.value[0]])
    monkeypatch.setattr(link, "_state", lambda **_: next(states))
    reply = link.call(Call("Begin", b"", 5.0, watched=True), CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    link.close()


def test_without_grpcios_inner_channel_nothing_is_believed(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = settled(Link(nobody, INSECURE, ARGUMENTS))
    channel: Any = link._channel
    inner = channel._channel
    monkeypatch.setattr(channel, "_channel", object())
    assert link.settle(1e12, CancelToken())
    reply = link.call(CERTAIN, CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    monkeypatch.setattr(channel, "_channel", inner)
    link.close()


def test_a_connected_channel_is_settled(service: Service) -> None:
    link = settled(Link(service.target, INSECURE, ARGUMENTS))
    assert isinstance(link.call(CERTAIN, CancelToken()), bytes)
    link.close()


def test_a_token_ends_the_wait_for_a_channel() -> None:
    token = CancelToken()
    token.cancel()
    # An address that does not answer: the channel goes on connecting.
    link = Link("192.0.2.1:50051", INSECURE, ARGUMENTS)
    assert not link.settle(1e12, token)
    link.close()


def test_a_closed_channel_says_so(nobody: str) -> None:
    link = Link(nobody, INSECURE, ARGUMENTS)
    link.close()
    reply = link.call(CERTAIN, CancelToken())
    assert isinstance(reply, CallFailure)
    assert not reply.was_never_sent
    assert not reply.is_worth_repeating


def test_unprotected_runs_are_counted_told_and_logged(
    nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    seen: list[Any] = []
    hooks = client.Hooks(on_unprotected=lambda *given: told.append((given, list(seen))))

    def fn(attempt: client.Attempt) -> client.WorkResult:
        seen.append(attempt)
        return DONE

    with client.Client(nobody, INSECURE, ClientOptions(hooks=hooks)) as runner:
        result = runner.run_once(
            KEY,
            REQUEST,
            on_lease_expiry=client.OnLeaseExpiry.TAKE_OVER,
            fn=fn,
            options=UNPROTECTED,
        )
        assert runner.unprotected_runs == 1
    assert result == client.Unprotected(DONE)
    ((key, error), seen_before) = told[0]
    assert key == KEY
    assert isinstance(error, client.Unavailable)
    assert seen_before == []
    (attempt,) = seen
    assert (attempt.unprotected, attempt.attempt_number, attempt.fencing_token) == (True, 0, 0)
    assert "running unprotected" in caplog.text
    assert "order-7" not in caplog.text


def test_unprotected_work_stops_after_max_duration(nobody: str) -> None:
    options = RunOptions(
        on_unavailable=OnUnavailable.RUN_UNPROTECTED, start_timeout=1, max_duration=0.1
    )

    def fn(attempt: client.Attempt) -> client.WorkResult:
        assert attempt.stop.wait(30)
        assert attempt.stop_reason() is client.StopReason.MAX_DURATION
        return DONE

    with client.Client(nobody, INSECURE) as runner:
        result = runner.run_once(
            KEY, REQUEST, on_lease_expiry=client.OnLeaseExpiry.TAKE_OVER, fn=fn, options=options
        )
    assert isinstance(result, client.Unprotected)


@pytest.mark.parametrize("crash", [KeyboardInterrupt, SystemExit])
def test_what_comes_from_outside_is_raised_by_unprotected_work(
    nobody: str, crash: type[BaseException]
) -> None:
    def fn(_: client.Attempt) -> client.WorkResult:
        raise crash

    with client.Client(nobody, INSECURE) as runner, pytest.raises(crash):
        runner.run_once(
            KEY, REQUEST, on_lease_expiry=client.OnLeaseExpiry.TAKE_OVER, fn=fn, options=UNPROTECTED
        )


def test_in_asyncio_the_channels_state_is_asked_for_too(nobody: str, service: Service) -> None:
    async def body() -> None:
        down = _aio_link.AsyncLink(nobody, INSECURE, ARGUMENTS)
        assert await down.settle(1e12)
        reply = await down.call(CERTAIN)
        assert isinstance(reply, CallFailure)
        assert reply.was_never_sent
        await down.close()
        assert not await down.settle(1e12)
        up = _aio_link.AsyncLink(service.target, INSECURE, ARGUMENTS)
        assert await up.settle(1e12)
        assert isinstance(await up.call(CERTAIN), bytes)
        await up.close()

    asyncio.run(body())


_LEFT_OPEN = """
import sys
from idempotency_client import *

client = Client(sys.argv[1], INSECURE)
token = CancelToken()

def fn(attempt):
    token.cancel()
    return WorkResult.completed(Outcome(200))

try:
    client.run_once(
        Key("acme", "order-7"), Request("o", Payload(b"")),
        on_lease_expiry=OnLeaseExpiry.TAKE_OVER, fn=fn, options=RunOptions(cancel=token),
    )
except OutcomeNotRecorded as error:
    print("still recording:", error.still_recording, flush=True)
"""


def test_a_program_that_ends_waits_for_what_is_being_recorded(service: Service) -> None:
    gate = service.behaviours["Complete"] = Gate()
    source = Path(__file__).resolve().parents[1] / "src"
    with subprocess.Popen(
        [sys.executable, "-c", _LEFT_OPEN, service.target],
        env={"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "still recording: True\n"
        del service.behaviours["Complete"]
        gate.opened.set()
        assert program.wait(60) == 0
    assert len({one.SerializeToString() for one in service.requests("Complete")}) == 1
    assert len(service.requests("Complete")) == 2
