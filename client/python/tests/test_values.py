"""Values refuse wrong types where they are made, and errors survive pickling."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from typing import Any

import pytest

import idempotency_client as client
from idempotency_client import Disposition, Failure, InvalidField, Outcome, WorkResult
from idempotency_client._wire import expiry_from_wire


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"status_code": "201"}, "outcome.status_code"),
        ({"status_code": True}, "outcome.status_code"),
        ({"status_code": 2**31}, "outcome.status_code"),
        ({"status_code": -(2**31) - 1}, "outcome.status_code"),
        ({"body": "text"}, "outcome.body"),
        ({"body": bytearray(b"x")}, "outcome.body"),
        ({"content_type": b"text/plain"}, "outcome.content_type"),
        ({"content_type": "\ud800"}, "outcome.content_type"),
        ({"response_id": 7}, "outcome.response_id"),
        ({"headers": {"A": b"b"}}, "outcome.headers"),
        ({"headers": "A: b"}, "outcome.headers"),
        ({"headers": [("A", b"b"), "C"]}, "outcome.headers[1]"),
        ({"headers": [("A", "b")]}, "outcome.headers[0].value"),
        ({"headers": [(b"A", b"b")]}, "outcome.headers[0].name"),
        ({"body_omitted": 1}, "outcome.body_omitted"),
        ({"body_size": "1"}, "outcome.body_size"),
        ({"body_sha256": "00"}, "outcome.body_sha256"),
    ],
)
def test_an_outcome_of_wrong_types_names_the_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as error:
        Outcome(**given)
    assert [violation.field for violation in error.value.violations] == [field]


def test_an_outcome_takes_the_ends_of_its_numbers_and_an_enum() -> None:
    assert Outcome(2**31 - 1).status_code == 2**31 - 1
    assert Outcome(-(2**31)).status_code == -(2**31)
    assert Outcome(HTTPStatus.CREATED).status_code == 201


def test_an_outcomes_headers_cannot_change_afterwards() -> None:
    headers = [("A", b"b")]
    outcome = Outcome(200, headers)
    headers.append(("C", b"d"))
    assert outcome.headers == (("A", b"b"),)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Failure("final"), "failure.disposition"),  # type: ignore[arg-type]
        (lambda: Failure(Disposition.FINAL, code=7), "failure.code"),  # type: ignore[arg-type]
        (lambda: Failure(Disposition.FINAL, message=b""), "failure.message"),  # type: ignore[arg-type]
        (lambda: WorkResult.final("c", "m", {}), "failure.outcome"),  # type: ignore[arg-type]
        (lambda: WorkResult.completed(None), "outcome"),  # type: ignore[arg-type]
        (lambda: WorkResult.completed({}), "outcome"),  # type: ignore[arg-type]
        (WorkResult, "outcome"),
        (lambda: WorkResult(failure="x"), "failure"),  # type: ignore[arg-type]
        (lambda: WorkResult(Outcome(), Failure(Disposition.FINAL)), "outcome"),
    ],
)
def test_work_of_wrong_types_names_the_field(make: Any, field: str) -> None:
    with pytest.raises(InvalidField) as error:
        make()
    assert [violation.field for violation in error.value.violations] == [field]


def test_outcome_of_is_the_recorded_outcome_only() -> None:
    time = datetime(2026, 1, 1, tzinfo=timezone.utc)
    outcome = Outcome(200)
    assert client.outcome_of(client.Completed(outcome, "r", 1, time)) is outcome
    assert client.outcome_of(client.Replayed(outcome, None, "r", 1, time, time)) is outcome
    assert client.outcome_of(client.Unprotected(WorkResult.completed(outcome))) is None


def test_no_repr_shows_a_body_or_a_header() -> None:
    outcome = Outcome(201, [("X-Card", b"4111")], body=b"4111", response_id="pay-7")
    request = client.Request("POST /payments", client.Payload(b"4111", "text/plain"))
    shown = repr((WorkResult.completed(outcome), request))
    assert "4111" not in shown
    assert "pay-7" in shown


def test_errors_survive_pickling() -> None:
    error = client.KeyReused(
        "m",
        reason="KEY_REUSED",
        grpc_code=9,
        metadata={"state": "COMPLETED"},
        retry_after=timedelta(seconds=1),
        work=WorkResult.unknown("c", "m"),
    )
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is client.KeyReused
    assert copy.__dict__ == error.__dict__
    assert str(copy) == "m"


def test_errors_of_once_survive_pickling() -> None:
    failed = client.Failed(
        Failure(Disposition.FINAL, "c"), "r", 1, datetime(2026, 1, 1, tzinfo=timezone.utc)
    )
    copy = pickle.loads(pickle.dumps(client.WorkFailedError(failed, failed.failure)))
    assert copy.result == failed
    assert copy.failure == failed.failure


def test_a_failures_words_are_cut_when_it_is_made() -> None:
    failure = client.WorkResult.final("\u00e9" * 40, "x" * 1022 + "\u20ac").failure
    assert failure is not None
    assert failure.code == "\u00e9" * 32
    assert failure.message == "x" * 1022


@pytest.mark.parametrize("action", [0, 2, 3, 77])
def test_an_on_lease_expiry_that_is_not_known_is_the_strict_one(action: int) -> None:
    assert expiry_from_wire(1) is client.OnLeaseExpiry.TAKE_OVER
    assert expiry_from_wire(action) is client.OnLeaseExpiry.HOLD
