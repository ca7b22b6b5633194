"""Keeping a lease, with a clock and a service that are played."""

from __future__ import annotations

from typing import Any

import pytest

from idempotency_client import Hooks, StopReason
from idempotency_client import _failure as code
from idempotency_client._flow import Call
from idempotency_client._lease import LeaseKeeper
from idempotency_client._plan import Caller
from idempotency_client._start import Lease
from playing import Clock, Play, config, patient, refused, renewed


class Stops:
    """Counts how often `fn` was told."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def keeper_of(
    clock: Clock,
    *,
    lease: float = 60.0,
    max_duration: float = 900.0,
    caller: Any = None,
    **options: Any,
) -> tuple[LeaseKeeper, Stops]:
    stops = Stops()
    held = Lease(clock.time, lease)
    settings = config(**options)
    return LeaseKeeper(settings, caller or patient(), held, max_duration, stops), stops


def test_renews_a_third_of_the_lease_after_the_last_was_sent(clock: Clock) -> None:
    sent: list[float] = []

    def answer(_: Call) -> bytes:
        sent.append(clock.time)
        clock.time += 3
        return renewed(60.0)

    keeper, stops = keeper_of(clock, max_duration=85)
    Play(clock, *[answer] * 10).drive(keeper.renewing(b"r"))
    assert sent == [1020.0, 1040.0, 1060.0, 1080.0]
    assert stops.count == 0


def test_the_local_end_moves_with_what_was_sent(clock: Clock) -> None:
    def answer(_: Call) -> bytes:
        clock.time += 3
        return renewed(60.0)

    keeper, _ = keeper_of(clock, max_duration=25)
    Play(clock, answer).drive(keeper.renewing(b"r"))
    # Sent at 1020; now it is 1025.
    assert keeper.remaining().total_seconds() == 55.0


def test_stops_fn_when_the_lease_has_run_out_locally(clock: Clock) -> None:
    keeper, stops = keeper_of(clock, lease=5)
    Play(clock).drive(keeper.watching())
    assert clock.time == 1005.0
    assert keeper.reason() is StopReason.LEASE_LOST
    assert stops.count == 1
    assert keeper.remaining().total_seconds() == 0.0


def test_stops_fn_after_max_duration(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, lease=60, max_duration=7)
    Play(clock).drive(keeper.watching())
    assert clock.time == 1007.0
    assert keeper.reason() is StopReason.MAX_DURATION


def test_stops_fn_at_the_callers_deadline(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, caller=Caller(3.0))
    Play(clock).drive(keeper.watching())
    assert clock.time == 1003.0
    assert keeper.reason() is StopReason.DEADLINE


def test_looks_at_the_clock_every_second(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, lease=3600)
    flow = keeper.watching()
    step: Any = next(flow)
    assert step.until == 1001.0


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (code.ABORTED, "LEASE_LOST"),
        (code.NOT_FOUND, "RECORD_NOT_FOUND"),
        (code.FAILED_PRECONDITION, "ALREADY_FINISHED"),
    ],
)
def test_a_lease_that_is_lost_stops_fn_and_is_not_renewed_again(
    clock: Clock, number: int, reason: str
) -> None:
    keeper, _ = keeper_of(clock)
    play = Play(clock, refused(number, reason))
    play.drive(keeper.renewing(b"r"))
    assert len(play.calls) == 1
    assert keeper.reason() is StopReason.LEASE_LOST


@pytest.mark.parametrize(
    ("number", "reason"),
    [(code.FAILED_PRECONDITION, "NEEDS_RESOLUTION"), (code.INVALID_ARGUMENT, "INVALID_FIELD")],
)
def test_a_lease_that_can_only_run_out_runs_to_its_end(
    clock: Clock, number: int, reason: str
) -> None:
    keeper, stops = keeper_of(clock)
    play = Play(clock, refused(number, reason))
    play.drive(keeper.renewing(b"r"))
    assert len(play.calls) == 1
    assert stops.count == 0


def test_a_renew_that_fails_is_repeated_within_a_second(clock: Clock) -> None:
    sent: list[float] = []

    def fail(_: Call) -> Any:
        sent.append(clock.time)
        return refused(code.UNAVAILABLE)

    keeper, stops = keeper_of(clock, max_duration=60)
    Play(clock, *[fail] * 1000).drive(keeper.renewing(b"r"))
    pauses = [later - earlier for earlier, later in zip(sent, sent[1:])]
    assert max(pauses) <= 1.0
    # Also after the lease's local end: nobody else should start while `fn` has not stopped.
    assert sent[-1] > 1050.0
    assert stops.count == 0


def test_backs_off_anew_after_a_renew_that_was_accepted(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, max_duration=60)
    failures = [refused(code.UNAVAILABLE)] * 6
    play = Play(clock, *failures, renewed(60.0), *failures[:1], renewed(60.0), renewed(60.0))
    play.drive(keeper.renewing(b"r"))
    # After the first renewal, the eighth sleep is for the next one; then the first pause again.
    assert play.sleeps[8].until - play.sleeps[7].until <= 0.05


def test_a_hanging_renew_leaves_time_for_another(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, lease=3.0, max_duration=2.0)

    def hang(call: Call) -> Any:
        clock.time += call.timeout
        return refused(code.DEADLINE_EXCEEDED)

    play = Play(clock, hang, hang)
    play.drive(keeper.renewing(b"r"))
    assert play.calls[0].timeout == 1.0


def test_a_renew_has_at_most_rpc_timeout(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, lease=600.0, max_duration=201.0)
    play = Play(clock, renewed(600.0))
    play.drive(keeper.renewing(b"r"))
    assert play.calls[0].timeout == 5.0


def test_a_negative_pushback_skips_to_the_next_renewal(clock: Clock) -> None:
    told: list[str] = []
    hooks = Hooks(on_retry=lambda rpc, _: told.append(rpc))
    keeper, _ = keeper_of(clock, max_duration=45, hooks=hooks)
    play = Play(clock, refused(code.UNAVAILABLE, must_not_retry=True), renewed())
    play.drive(keeper.renewing(b"r"))
    assert [sleep.until for sleep in play.sleeps] == [1020.0, 1040.0, 1045.0]
    assert told == []


def test_credentials_are_refreshed_at_once_then_as_others(clock: Clock) -> None:
    told: list[str] = []
    hooks = Hooks(refresh_credentials=lambda: told.append("refresh"))
    keeper, _ = keeper_of(clock, max_duration=25, hooks=hooks)
    refusal = refused(code.UNAUTHENTICATED, "CREDENTIALS_INVALID")
    play = Play(clock, refusal, refusal, renewed(60.0))
    play.drive(keeper.renewing(b"r"))
    assert told == ["refresh"]
    assert play.sleeps[1].until == 1020.0
    assert play.sleeps[2].until > 1020.0


def test_a_lease_with_nearly_no_time_is_not_renewed_in_a_busy_loop(clock: Clock) -> None:
    keeper, _ = keeper_of(clock, lease=0.0, max_duration=1.0)
    play = Play(clock, *[renewed(0.0)] * 100)
    play.drive(keeper.renewing(b"r"))
    assert len(play.calls) <= 50


def test_stops_for_the_first_reason_only(clock: Clock) -> None:
    keeper, stops = keeper_of(clock)
    keeper.stop(StopReason.CANCELLED)
    keeper.stop(StopReason.DEADLINE)
    assert keeper.reason() is StopReason.CANCELLED
    assert stops.count == 1


def test_an_fn_that_has_ended_is_not_stopped(clock: Clock) -> None:
    keeper, stops = keeper_of(clock)
    keeper.end()
    keeper.stop(StopReason.CANCELLED)
    assert keeper.reason() is StopReason.NONE
    assert stops.count == 0
