"""HTTP answers: the same as every other client's, by the shared vectors."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import idempotency_client as client
import vectors
from idempotency_client.errors import ERROR_TYPES
from scenario_values import outcome_of, work_of

HTTP = vectors.load("http_answer")
SOME_TIME = datetime(2026, 1, 1, tzinfo=timezone.utc)
RECORD: Any = {"record_id": "r", "attempt_number": 1, "finish_time": SOME_TIME}


def result_of(given: dict[str, Any]) -> Any:
    kind = given["kind"]
    outcome = outcome_of(given["outcome"]) if "outcome" in given else None
    failure = failure_of(given["failure"]) if "failure" in given else None
    if kind == "Completed":
        assert outcome is not None
        without_body = given.get("recorded_without_body", False)
        return client.Completed(outcome, **RECORD, recorded_without_body=without_body)
    if kind == "Replayed":
        return client.Replayed(outcome, failure, **RECORD, start_time=SOME_TIME)
    if kind == "Failed":
        assert failure is not None
        return client.Failed(failure, **RECORD)
    if kind == "Unprotected":
        return client.Unprotected(work_of(given["work"]))
    if kind == "InProgress":
        span = timedelta(milliseconds=given["retry_after_ms"])
        return client.InProgress(span, timedelta(), "r", 1, SOME_TIME)
    return error_of(given["error"])


def error_of(given: dict[str, Any]) -> client.IdempotencyError:
    millis = given.get("retry_after_ms")
    return ERROR_TYPES[client.ErrorKind(given["kind"])](
        given["message"],
        retry_after=None if millis is None else timedelta(milliseconds=millis),
        work=work_of(given["work"]) if "work" in given else None,
        still_recording=given.get("still_recording", False),
    )


def failure_of(given: dict[str, Any]) -> client.Failure:
    outcome = outcome_of(given["outcome"]) if "outcome" in given else None
    disposition = client.Disposition(given["disposition"])
    return client.Failure(disposition, given["code"], given["message"], outcome)


@pytest.mark.parametrize("case", HTTP["cases"], ids=vectors.named(HTTP["cases"]))
def test_http_answer(case: dict[str, Any]) -> None:
    answer = client.http_answer(result_of(case["result"]))
    assert answer.status == case["answer"]["status"]
    assert [[name, value.decode()] for name, value in answer.headers] == case["answer"]["headers"]
    assert answer.body.decode() == case["answer"]["body"]


def test_every_error_has_an_answer() -> None:
    for error_type in ERROR_TYPES.values():
        assert client.http_answer(error_type("4111 1111 1111 1111")).status >= 400


def test_the_errors_of_once_are_answered_as_their_results() -> None:
    failed = client.Failed(client.Failure(client.Disposition.NOT_APPLIED), **RECORD)
    assert client.http_answer(client.WorkFailedError(failed, failed.failure)).status == 503
    busy = client.InProgress(timedelta(seconds=2), timedelta(), "r", 1, SOME_TIME)
    answer = client.http_answer(client.InProgressError(busy))
    assert (answer.status, answer.headers[1]) == (409, ("Retry-After", b"2"))


def test_header_values_for_wsgi_are_text_of_their_bytes() -> None:
    outcome = client.Outcome(200, [("X", b"\xff\x00")])
    answer = client.http_answer(client.Completed(outcome, **RECORD))
    assert answer.text_headers() == [("X", "\xff\x00")]


def test_half_a_character_in_a_failures_words_is_no_reason_to_break() -> None:
    failure = client.Failure(client.Disposition.FINAL, "X", "\ud83d")
    answer = client.http_answer(client.Failed(failure, **RECORD))
    assert (answer.status, answer.body) == (422, b'{"status":422,"code":"X","message":"?"}')
