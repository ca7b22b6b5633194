"""What a service that speaks HTTP answers for a result or an error of ``run_once``."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional, Union

from .errors import ErrorKind, IdempotencyError, ResultError
from .types import (
    Completed,
    Disposition,
    Failed,
    Failure,
    InProgress,
    Outcome,
    Replayed,
    RunResult,
    Unprotected,
)

_REPLAYED = ("Idempotent-Replayed", b"true")
_BODY_OMITTED = ("Idempotent-Body-Omitted", b"true")

# The words are for the payer's program: nothing of an error's own message goes out.
_MESSAGES = {
    "BAD_STATUS_CODE": "The recorded status code is none that HTTP can carry.",
    "NOT_APPLIED": "Nothing was done. Try again with the same key.",
    "OUTCOME_UNKNOWN": "Whether this was done is not known. Try again with the same key.",
    "IN_PROGRESS": "This is being done. Try again with the same key.",
    "INVALID_FIELD": "The request is invalid.",
    "REQUEST_TOO_LARGE": "The request is too large.",
    "KEY_REUSED": "The key was used for another request.",
    "LEASE_LOST": "This came too late. Try again with the same key.",
    "OUTCOME_CONFLICT": "Another outcome is recorded.",
    "NEEDS_RESOLUTION": "Whether this was done is not known, and has to be found out first.",
    "RECORD_NOT_FOUND": "There is no record of this key.",
    "RATE_LIMITED": "Too many requests. Try again with the same key.",
    "UNAVAILABLE": "Nothing was done. Try again with the same key.",
    "DEADLINE_EXCEEDED": "There was no answer in time. Try again with the same key.",
    "CANCELLED": "The caller has left.",
    "OUTCOME_NOT_RECORDED": (
        "This ended, and its outcome is not recorded. Try again with the same key."
    ),
    "UNAUTHENTICATED": "The service is not set up right.",
    "PERMISSION_DENIED": "The service is not set up right.",
    "INTERNAL": "The service failed. Try again with the same key.",
}

_STATUS = {
    ErrorKind.INVALID_FIELD: 400,
    ErrorKind.REQUEST_TOO_LARGE: 413,
    ErrorKind.KEY_REUSED: 422,
    ErrorKind.LEASE_LOST: 409,
    ErrorKind.OUTCOME_CONFLICT: 409,
    ErrorKind.NEEDS_RESOLUTION: 409,
    ErrorKind.RECORD_NOT_FOUND: 404,
    ErrorKind.RATE_LIMITED: 429,
    ErrorKind.UNAVAILABLE: 503,
    ErrorKind.DEADLINE_EXCEEDED: 504,
    ErrorKind.CANCELLED: 499,
}

# 1xx is no end of an answer.
_SAYABLE = range(200, 600)

_WAITS = (ErrorKind.RATE_LIMITED, ErrorKind.UNAVAILABLE)


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer. Header values are bytes, as ASGI has them; ``text_headers`` are for WSGI."""

    status: int
    headers: tuple[tuple[str, bytes], ...]
    body: bytes

    def text_headers(self) -> list[tuple[str, str]]:
        """The headers with their values as text, one character a byte (ISO 8859-1)."""
        return [(name, value.decode("latin-1")) for name, value in self.headers]


def http_answer(result: Union[RunResult, IdempotencyError, ResultError]) -> HttpAnswer:
    """The answer to the payer: the recorded one, or a JSON body with status, code and message.

    The table is in the page of all clients. Nothing internal goes out: an error's own message stays
    here, and so does what a failure that is not final says.
    """
    if isinstance(result, ResultError):
        result = result.result
    if isinstance(result, IdempotencyError):
        return _error_answer(result)
    if isinstance(result, InProgress):
        return _problem(409, "IN_PROGRESS", retry_after=result.retry_after)
    replayed = isinstance(result, Replayed)
    if isinstance(result, Unprotected):
        outcome, failure = result.work.outcome, result.work.failure
    elif isinstance(result, Completed):
        outcome, failure = result.outcome, None
    elif isinstance(result, Failed):
        outcome, failure = None, result.failure
    else:
        outcome, failure = result.outcome, result.failure
    if failure is None:
        return _outcome_answer(outcome if outcome is not None else Outcome(), replayed=replayed)
    return _failure_answer(failure, replayed=replayed)


def _error_answer(error: IdempotencyError) -> HttpAnswer:
    code = error.kind.name
    if error.kind is ErrorKind.OUTCOME_NOT_RECORDED:
        return _problem(504 if error.still_recording else 500, code)
    if error.work is not None:
        return _problem(500, code)
    status = _STATUS.get(error.kind, 500)
    if error.kind in _WAITS:
        return _problem(status, code, retry_after=error.retry_after or timedelta())
    return _problem(status, code)


def _failure_answer(failure: Failure, *, replayed: bool) -> HttpAnswer:
    if failure.disposition is Disposition.NOT_APPLIED:
        return _problem(503, "NOT_APPLIED", retry_after=timedelta())
    if failure.disposition is Disposition.UNKNOWN:
        return _problem(502, "OUTCOME_UNKNOWN")
    if failure.outcome is not None:
        return _outcome_answer(failure.outcome, replayed=replayed)
    return _problem(422, failure.code, failure.message, replayed=replayed)


def _outcome_answer(outcome: Outcome, *, replayed: bool) -> HttpAnswer:
    if outcome.status_code not in _SAYABLE:
        return _problem(500, "BAD_STATUS_CODE", replayed=replayed)
    headers = list(outcome.headers)
    if outcome.content_type and all(name.lower() != "content-type" for name, _ in headers):
        headers.append(("Content-Type", outcome.content_type.encode()))
    if replayed:
        headers.append(_REPLAYED)
    if outcome.body_omitted:
        headers.append(_BODY_OMITTED)
    body = b"" if outcome.body is None or outcome.body_omitted else outcome.body
    return HttpAnswer(outcome.status_code, tuple(headers), body)


def _problem(
    status: int,
    code: str,
    message: Optional[str] = None,
    *,
    retry_after: Optional[timedelta] = None,
    replayed: bool = False,
) -> HttpAnswer:
    headers = [("Content-Type", b"application/json")]
    if retry_after is not None:
        seconds = max(1, math.ceil(retry_after / timedelta(seconds=1)))
        headers.append(("Retry-After", str(seconds).encode()))
    if replayed:
        headers.append(_REPLAYED)
    text = json.dumps(
        {
            "status": status,
            "code": code,
            "message": _MESSAGES[code] if message is None else message,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )
    # "replace": a failure's own words may hold half a character; it is not worth a 500.
    return HttpAnswer(status, tuple(headers), text.encode("utf-8", "replace"))
