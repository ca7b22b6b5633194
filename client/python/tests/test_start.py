"""From the first Begin to the right to work, with a clock and a service that are played."""

from __future__ import annotations

from typing import Any

import pytest

from idempotency_client import (
    Cancelled,
    DeadlineExceeded,
    Hooks,
    IdempotencyError,
    InProgress,
    Internal,
    LeaseLost,
    OnLeaseExpiry,
    PermissionDenied,
    Unavailable,
)
from idempotency_client import _failure as code
from idempotency_client._flow import Call, Settle
from idempotency_client._generated import idempotency_service_pb2 as service
from idempotency_client._plan import Caller
from idempotency_client._start import Granted, Start
from playing import (
    AWAY,
    Clock,
    Play,
    begin,
    config,
    in_progress,
    patient,
    plan,
    refused,
    released,
    renewed,
    started,
)


def test_the_right_to_work_counts_from_when_the_call_was_sent(clock: Clock) -> None:
    def slow(call: Call) -> bytes:
        clock.time += 4
        return started(lease=60.0)(call)

    verdict, start, _ = begin(clock, slow)
    assert isinstance(verdict, Granted)
    assert verdict.lease.deadline == 1000.0 + 60.0
    assert not released(start)


def test_repeats_have_identical_bytes(clock: Clock) -> None:
    labels = {f"label-{at}": "x" for at in range(16)}
    verdict, _, play = begin(
        clock,
        refused(code.UNAVAILABLE),
        refused(code.DEADLINE_EXCEEDED),
        refused(code.RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED"),
        started(),
        given=plan(labels=labels),
    )
    assert isinstance(verdict, Granted)
    assert len({call.request for call in play.calls}) == 1


def test_two_calls_have_two_attempt_ids(clock: Clock) -> None:
    ids = set()
    for _ in range(2):
        _, _, play = begin(clock, started())
        ids.add(service.BeginRequest.FromString(play.calls[0].request).attempt_id)
    assert len(ids) == 2


def test_waits_what_the_server_asks_with_up_to_a_fifth_on_top(clock: Clock) -> None:
    _, _, play = begin(clock, refused(code.UNAVAILABLE, "OVERLOADED", retry_after=10.0), started())
    (sleep,) = play.sleeps
    assert 1010.0 <= sleep.until <= 1012.0


def test_no_more_than_a_minute_at_once(clock: Clock) -> None:
    refusal = refused(code.UNAVAILABLE, "OVERLOADED", retry_after=3600.0)
    _, _, play = begin(clock, refusal, started(), given=plan(start_timeout=600))
    (sleep,) = play.sleeps
    assert 1060.0 <= sleep.until <= 1072.0


def test_backs_off_by_itself_otherwise(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE) for _ in range(5)]
    _, _, play = begin(clock, *failures, started())
    pauses = [b.until - a.until for a, b in zip(play.sleeps, play.sleeps[1:])]
    for pause, longest in zip(pauses, (0.1, 0.2, 0.4, 0.8)):
        assert longest / 2 <= pause <= longest


def test_a_negative_pushback_ends_it(clock: Clock) -> None:
    verdict, start, play = begin(
        clock, refused(code.UNAVAILABLE, "OVERLOADED", must_not_retry=True)
    )
    assert isinstance(verdict, Unavailable)
    assert len(play.calls) == 1
    assert not released(start)


def test_gives_up_after_start_timeout_and_releases(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE) for _ in range(100)]
    verdict, start, play = begin(clock, *failures, given=plan(start_timeout=7))
    assert isinstance(verdict, Unavailable)
    assert clock.time <= 1007.0
    assert len(play.calls) > 5
    assert released(start)


def test_no_try_is_longer_than_what_is_left_but_for_a_moment(clock: Clock) -> None:
    def hang(call: Call) -> Any:
        clock.time += call.timeout
        return refused(code.DEADLINE_EXCEEDED)

    verdict, _, play = begin(clock, *[hang] * 10, given=plan(start_timeout=7))
    assert isinstance(verdict, DeadlineExceeded)
    assert play.calls[0].timeout == 5.0
    assert clock.time <= 1007.25


def test_the_callers_deadline_bounds_a_try(clock: Clock) -> None:
    def hang(call: Call) -> Any:
        clock.time += call.timeout
        return refused(code.DEADLINE_EXCEEDED)

    verdict, start, play = begin(clock, hang, caller=Caller(2.0))
    assert isinstance(verdict, DeadlineExceeded)
    assert play.calls[0].timeout == 2.0
    assert clock.time == 1002.0
    assert released(start)


def test_a_caller_that_is_gone_already_sends_nothing(clock: Clock) -> None:
    verdict, start, play = begin(clock, caller=Caller(None, lambda: True))
    assert isinstance(verdict, Cancelled)
    assert play.steps == []
    assert not released(start)


def test_a_caller_that_goes_while_started_is_on_its_way_releases(clock: Clock) -> None:
    gone = False

    def answer(call: Call) -> bytes:
        nonlocal gone
        gone = True
        return started()(call)

    verdict, start, _ = begin(clock, answer, caller=Caller(None, lambda: gone))
    assert isinstance(verdict, Cancelled)
    assert released(start)


def test_a_flow_that_is_left_in_the_middle_of_a_try_releases(clock: Clock) -> None:
    start = Start(plan(), config(), patient())
    flow = start.flow()
    while not isinstance(flow.send(None), Call):
        pass
    assert released(start)


def test_a_flow_that_is_left_before_its_first_try_releases_nothing(clock: Clock) -> None:
    start = Start(plan(), config(), patient())
    assert isinstance(next(start.flow()), Settle)
    assert not released(start)


@pytest.mark.parametrize("reason", [*AWAY, "SCHEMA_INCOMPATIBLE"])
def test_a_refusal_that_says_that_nothing_was_done_leaves_nothing(
    clock: Clock, reason: str
) -> None:
    failures = [refused(code.UNAVAILABLE, reason) for _ in range(100)]
    verdict, start, _ = begin(clock, *failures, given=plan(start_timeout=3))
    assert isinstance(verdict, Unavailable)
    assert not released(start)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(code.ABORTED, "LEASE_LOST"), (code.FAILED_PRECONDITION, "NEEDS_RESOLUTION")],
)
def test_what_is_over_is_said_not_to_have_begun(clock: Clock, status: int, reason: str) -> None:
    verdict, start, _ = begin(clock, refused(status, reason))
    assert isinstance(verdict, IdempotencyError)
    release = start.release()
    assert release is not None
    fail = service.FailRequest.FromString(next(release.flow()).request)  # type: ignore[union-attr]
    assert fail.failure.code == "NOT_BEGUN"


def test_a_release_may_have_come_before_its_begin(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE)] * 100
    _, start, _ = begin(clock, *failures, given=plan(start_timeout=3))
    release = start.release()
    assert release is not None
    unknown = refused(code.NOT_FOUND, "RECORD_NOT_FOUND")
    play = Play(clock, unknown, unknown)
    play.drive(release.flow())
    assert len(play.calls) == 2


def test_a_caller_that_goes_in_a_pause_is_not_kept(clock: Clock) -> None:
    told: list[str] = []
    refusal = refused(code.UNAVAILABLE, "OVERLOADED", retry_after=20.0)
    verdict, _, _ = begin(clock, refusal, caller=Caller(5.0))
    assert isinstance(verdict, DeadlineExceeded)
    assert clock.time == 1005.0

    def slow(call: Call) -> Any:
        clock.time += call.timeout
        return refused(code.UNAVAILABLE, "OVERLOADED")

    hooks = Hooks(on_retry=lambda rpc, _: told.append(rpc))
    begin(clock, slow, caller=Caller(5.0), settings=config(hooks=hooks))
    assert told == []


def test_a_call_that_was_never_sent_leaves_nothing(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, was_down=True) for _ in range(100)]
    verdict, start, play = begin(clock, *failures, given=plan(start_timeout=3))
    assert isinstance(verdict, Unavailable)
    assert not released(start)
    assert all(call.watched for call in play.calls)


def test_under_hold_nothing_is_believed_to_be_never_sent(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, was_down=True) for _ in range(100)]
    given = plan(OnLeaseExpiry.HOLD, start_timeout=3)
    _, start, play = begin(clock, *failures, given=given)
    assert released(start)
    assert not any(call.watched for call in play.calls)


def test_in_progress_is_answered_at_once_without_a_wait(clock: Clock) -> None:
    verdict, start, play = begin(clock, in_progress(0.5))
    assert isinstance(verdict, InProgress)
    assert verdict.retry_after.total_seconds() == 0.5
    assert len(play.calls) == 1
    assert not released(start)


def test_a_wait_that_ends_early_goes_on_until_wait_timeout(clock: Clock) -> None:
    verdict, _, play = begin(clock, *[in_progress(2.0)] * 20, given=plan(wait_timeout=9))
    assert isinstance(verdict, InProgress)
    assert len(play.calls) == 5
    assert clock.time == 1008.0
    assert all(call.waits for call in play.calls)


def test_a_service_that_asks_for_no_pause_is_not_asked_in_a_busy_loop(clock: Clock) -> None:
    verdict, _, play = begin(clock, *[in_progress(-5.0)] * 20, given=plan(wait_timeout=0.5))
    assert isinstance(verdict, InProgress)
    assert len(play.calls) <= 11


def test_a_wait_is_asked_for_in_pieces_of_at_most_30_s(clock: Clock) -> None:
    def wait(call: Call) -> bytes:
        asked = service.BeginRequest.FromString(call.request).wait_timeout
        clock.time += asked.ToMilliseconds() / 1000
        return in_progress(0.1)

    _, _, play = begin(clock, *[wait] * 20, given=plan(wait_timeout=70))
    asked = [
        service.BeginRequest.FromString(call.request).wait_timeout.ToMilliseconds()
        for call in play.calls
    ]
    assert asked[:2] == [30_000, 30_000]
    assert asked[2] < 10_000
    assert [call.timeout for call in play.calls[:2]] == [35.0, 35.0]


def test_in_progress_says_that_the_attempt_was_not_started(clock: Clock) -> None:
    _, start, _ = begin(clock, refused(code.UNAVAILABLE), in_progress())
    assert not released(start)


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"", b"\x0a\x01r"])
def test_an_answer_that_nobody_can_read_starts_nothing(clock: Clock, answer: bytes) -> None:
    verdict, start, play = begin(clock, answer)
    assert isinstance(verdict, Internal)
    assert len(play.calls) == 1
    assert released(start)


def test_a_replay_without_an_answer_is_none(clock: Clock) -> None:
    response = service.BeginResponse(record_id="r")
    response.replay.attempt_number = 1
    verdict, _, _ = begin(clock, response.SerializeToString())
    assert isinstance(verdict, Internal)


@pytest.mark.parametrize(
    "fields",
    [
        {"attempt_id": "somebody else's"},
        {"lease": None},
        {"record_id": ""},
        {"attempt_number": 0},
        {"downstream_key": ""},
        {"downstream_key": "0" * 35},
    ],
)
def test_another_attempt_or_one_that_is_not_whole_is_no_right_to_work(
    clock: Clock, fields: dict[str, Any]
) -> None:
    verdict, start, _ = begin(clock, started(**fields))
    assert isinstance(verdict, Internal)
    assert released(start)


def test_a_lease_that_is_over_on_arrival_is_renewed_first(clock: Clock) -> None:
    verdict, _, play = begin(clock, started(lease=0.0, repeated=True), renewed(30.0))
    assert isinstance(verdict, Granted)
    assert verdict.lease.deadline == 1030.0
    assert [call.rpc for call in play.calls] == ["Begin", "Renew"]


def test_a_lease_that_came_too_late_and_is_lost_is_no_right_to_work(clock: Clock) -> None:
    def late(call: Call) -> bytes:
        clock.time += 4
        return started(lease=3.0)(call)

    verdict, start, _ = begin(clock, late, refused(code.ABORTED, "LEASE_LOST"))
    assert isinstance(verdict, LeaseLost)
    assert released(start)


def test_a_lease_shorter_than_the_way_is_no_right_to_work(clock: Clock) -> None:
    def late_renewal(_: Call) -> bytes:
        clock.time += 4
        return renewed(3.0)

    verdict, start, _ = begin(clock, started(lease=0.0), late_renewal)
    assert isinstance(verdict, LeaseLost)
    assert released(start)


def test_credentials_are_refreshed_once(clock: Clock) -> None:
    told: list[str] = []
    hooks = Hooks(refresh_credentials=lambda: told.append("refresh"))
    refusal = refused(code.UNAUTHENTICATED, "CREDENTIALS_INVALID")
    verdict, start, play = begin(clock, refusal, refusal, settings=config(hooks=hooks))
    assert isinstance(verdict, IdempotencyError)
    assert told == ["refresh"]
    assert len(play.calls) == 2
    assert not released(start)


def test_a_refusal_for_good_is_not_repeated(clock: Clock) -> None:
    verdict, _, play = begin(clock, refused(code.PERMISSION_DENIED, "MERCHANT_FORBIDDEN"))
    assert isinstance(verdict, PermissionDenied)
    assert len(play.calls) == 1
