"""Complete and Fail until it is known whether they are recorded, with a clock that is played."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from idempotency_client import (
    Disposition,
    ErrorKind,
    Failure,
    FieldViolation,
    Hooks,
    IdempotencyError,
    Outcome,
    OutcomeNotRecorded,
    WorkResult,
)
from idempotency_client import _failure as code
from idempotency_client._flow import Call
from idempotency_client._generated import idempotency_service_pb2 as service
from idempotency_client._recording import Recorded, Recording
from idempotency_client._wire import record_request
from playing import Clock, Play, config, plan, recorded, refused

DONE = WorkResult.completed(Outcome(201, body=b"body"))
UNKNOWN = WorkResult.unknown("c", "m")


def record(
    clock: Clock, *answers: Any, work: WorkResult = DONE, may_be_early: bool = False, **options: Any
) -> tuple[Any, Play]:
    request = record_request(plan().begin, work)
    recording = Recording(config(**options), request, may_be_early=may_be_early)
    play = Play(clock, *answers)
    return play.drive(recording.flow()), play


@pytest.mark.parametrize("number", range(1, 17))
def test_repeated_on_every_code_that_is_no_refusal(clock: Clock, number: int) -> None:
    refusals = (3, 5, 7, 9, 10)
    if number in refusals or number == code.RESOURCE_EXHAUSTED:
        end, play = record(clock, refused(number), work=UNKNOWN)
        assert isinstance(end, IdempotencyError)
        assert end.grpc_code == number
        assert len(play.calls) == 1
    else:
        end, play = record(clock, refused(number, must_not_retry=True), recorded())
        assert isinstance(end, Recorded)
        assert len({call.request for call in play.calls}) == 1


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"", b"\x0a\x01r"])
def test_an_answer_without_finish_time_counts_as_none(clock: Clock, answer: bytes) -> None:
    end, play = record(clock, answer, recorded())
    assert isinstance(end, Recorded)
    assert len({call.request for call in play.calls}) == 1
    assert len(play.calls) == 2


def test_unauthenticated_is_repeated_once(clock: Clock) -> None:
    told: list[str] = []
    hooks = Hooks(refresh_credentials=lambda: told.append("refresh"))
    refusal = refused(code.UNAUTHENTICATED, "CREDENTIALS_INVALID")
    end, _ = record(clock, refusal, refused(code.UNAVAILABLE), refusal, hooks=hooks)
    assert isinstance(end, IdempotencyError)
    assert end.kind is ErrorKind.UNAUTHENTICATED
    assert told == ["refresh"]


def test_given_up_after_record_timeout_with_its_own_name(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, "OVERLOADED") for _ in range(1000)]
    end, play = record(clock, *failures, record_timeout=300)
    assert isinstance(end, OutcomeNotRecorded)
    assert end.reason == "OVERLOADED"
    assert clock.time == 1300.0
    assert len(play.calls) > 60


def violation(field: str) -> Any:
    return refused(
        code.INVALID_ARGUMENT, "INVALID_FIELD", violations=(FieldViolation(field, "too long"),)
    )


@pytest.mark.parametrize("refusal", [violation("outcome.body"), refused(code.RESOURCE_EXHAUSTED)])
def test_a_body_that_is_too_large_is_recorded_by_size_and_digest(
    clock: Clock, refusal: Any
) -> None:
    end, play = record(clock, refusal, refused(code.UNAVAILABLE), recorded())
    assert isinstance(end, Recorded)
    assert end.without_body
    first, second, third = (
        service.CompleteRequest.FromString(call.request).outcome for call in play.calls
    )
    assert first.body == b"body"
    assert not second.HasField("body")
    assert second.body_omitted
    assert second.body_size == 4
    assert second.body_sha256 == hashlib.sha256(b"body").digest()
    assert third == second


def test_a_failures_outcome_too(clock: Clock) -> None:
    work = WorkResult.final("c", "m", Outcome(400, body=b"body"))
    end, play = record(clock, violation("failure.outcome.body"), recorded(), work=work)
    assert isinstance(end, Recorded)
    assert end.without_body
    assert service.FailRequest.FromString(play.calls[1].request).failure.outcome.body_omitted


@pytest.mark.parametrize(
    "work", [UNKNOWN, WorkResult.completed(Outcome(204)), WorkResult.final("c", "m", Outcome(400))]
)
def test_too_large_without_a_body_is_an_error(clock: Clock, work: WorkResult) -> None:
    end, play = record(clock, refused(code.RESOURCE_EXHAUSTED), work=work)
    assert isinstance(end, IdempotencyError)
    assert end.kind is ErrorKind.REQUEST_TOO_LARGE
    assert len(play.calls) == 1


def test_too_large_without_its_body_is_an_error(clock: Clock) -> None:
    refusal = refused(code.RESOURCE_EXHAUSTED)
    end, play = record(clock, refusal, refusal)
    assert isinstance(end, IdempotencyError)
    assert len(play.calls) == 2


@pytest.mark.parametrize(
    ("number", "reason"), [(code.NOT_FOUND, "RECORD_NOT_FOUND"), (code.ABORTED, "LEASE_LOST")]
)
def test_a_release_that_came_before_its_begin_is_looked_at_once_more(
    clock: Clock, number: int, reason: str
) -> None:
    end, play = record(clock, refused(number, reason), recorded(), may_be_early=True)
    assert isinstance(end, Recorded)
    assert [sleep.until for sleep in play.sleeps] == [1002.0]


def test_but_only_once_and_only_where_it_may_be_early(clock: Clock) -> None:
    refusal = refused(code.ABORTED, "LEASE_LOST")
    _, play = record(clock, refusal, refusal, may_be_early=True)
    assert len(play.calls) == 2
    _, play = record(clock, refusal)
    assert len(play.calls) == 1


def test_a_try_has_at_least_a_moment(clock: Clock) -> None:
    def slow(call: Call) -> Any:
        clock.time += call.timeout
        return refused(code.DEADLINE_EXCEEDED)

    end, play = record(clock, *[slow] * 10, record_timeout=6)
    assert isinstance(end, OutcomeNotRecorded)
    assert play.calls[0].timeout == 5.0
    assert all(call.timeout >= 0.1 for call in play.calls)
    assert clock.time <= 1006.2


def test_a_failures_words_are_cut_at_whole_characters() -> None:
    work = WorkResult(failure=Failure(Disposition.FINAL, "é" * 40, "x" * 1022 + "€"))
    request = record_request(plan().begin, work)
    assert isinstance(request, service.FailRequest)
    assert request.failure.code == "é" * 32
    assert request.failure.message == "x" * 1022


def test_half_a_character_does_not_keep_a_failure_from_being_recorded() -> None:
    work = WorkResult(failure=Failure(Disposition.FINAL, "a\ud800b", ""))
    request = record_request(plan().begin, work)
    assert isinstance(request, service.FailRequest)
    assert request.failure.code == "a?b"


def test_an_outcome_that_came_from_a_lookup_can_be_recorded() -> None:
    # Lookup fills size and digest beside the body; the service refuses them there.
    looked_up = Outcome(200, body=b"x", body_size=1, body_sha256=b"\0" * 32)
    request = record_request(plan().begin, WorkResult.completed(looked_up))
    assert isinstance(request, service.CompleteRequest)
    assert not request.outcome.HasField("body_size")
    assert request.outcome.body_sha256 == b""


def test_ends_once_and_tells_the_loss_before_the_end(clock: Clock) -> None:
    told: list[str] = []
    recording = Recording(
        config(),
        record_request(plan().begin, DONE),
        on_lost=lambda error: told.append(error.kind.value),
    )
    recording.on_end = lambda: told.append("end")
    recording.abandon()
    recording.end(ValueError("a bug"))
    assert told == ["OutcomeNotRecorded", "end"]
    assert isinstance(recording.result, OutcomeNotRecorded)


def test_a_bug_in_the_client_is_a_loss_that_is_told() -> None:
    lost: list[IdempotencyError] = []
    recording = Recording(config(), record_request(plan().begin, DONE), on_lost=lost.append)
    recording.end(ValueError("a bug"))
    assert [error.kind for error in lost] == [ErrorKind.OUTCOME_NOT_RECORDED]


def test_hooks_that_raise_cost_nothing(clock: Clock) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a hook's own")

    hooks = Hooks(on_retry=broken, refresh_credentials=broken)
    refusal = refused(code.UNAUTHENTICATED, "CREDENTIALS_INVALID")
    end, _ = record(clock, refused(code.UNAVAILABLE), refusal, recorded(), hooks=hooks)
    assert isinstance(end, Recorded)
