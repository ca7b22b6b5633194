"""Between this client's values and idempotency.v1's messages."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from typing import Any, Optional, Union

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ._generated import idempotency_service_pb2 as service
from ._generated import record_pb2 as record
from .types import (
    Disposition,
    Failure,
    Fingerprint,
    InProgress,
    Key,
    OnLeaseExpiry,
    Outcome,
    PreviousAttempt,
    Record,
    RecordState,
    Replayed,
    Request,
    WorkResult,
)

# Within datetime's years and timedelta's days, whatever a broken server sends.
_MOST_SECONDS = 250 * 366 * 24 * 3600

_DISPOSITION_TO_WIRE = {
    Disposition.NOT_APPLIED: record.FAILURE_DISPOSITION_NOT_APPLIED,
    Disposition.FINAL: record.FAILURE_DISPOSITION_FINAL,
    Disposition.UNKNOWN: record.FAILURE_DISPOSITION_UNKNOWN,
}
_DISPOSITION_FROM_WIRE = {number: name for name, number in _DISPOSITION_TO_WIRE.items()}

_EXPIRY_TO_WIRE = {
    OnLeaseExpiry.TAKE_OVER: record.LEASE_EXPIRY_ACTION_TAKE_OVER,
    OnLeaseExpiry.HOLD: record.LEASE_EXPIRY_ACTION_HOLD,
}

_STATE_FROM_WIRE = {
    record.RECORD_STATE_COMPLETED: RecordState.COMPLETED,
    record.RECORD_STATE_FAILED: RecordState.FAILED,
    record.RECORD_STATE_RELEASED: RecordState.RELEASED,
    record.RECORD_STATE_ABANDONED: RecordState.ABANDONED,
}

RecordRequest = Union[service.CompleteRequest, service.FailRequest]


def set_duration(seconds: float, message: Duration) -> None:
    """To the microsecond; the service rounds up to its own unit."""
    micros = round(seconds * 1_000_000)
    message.seconds, rest = divmod(micros, 1_000_000)
    message.nanos = rest * 1000


def span_of(message: Duration) -> float:
    """In seconds."""
    seconds = max(-_MOST_SECONDS, min(message.seconds, _MOST_SECONDS))
    return seconds + message.nanos / 1_000_000_000


def instant_of(message: Timestamp) -> datetime:
    """In UTC, to the microsecond."""
    seconds = max(-_MOST_SECONDS, min(message.seconds, _MOST_SECONDS))
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(
        seconds=seconds, microseconds=message.nanos // 1000
    )


def begin_request(
    key: Key,
    request: Request,
    on_lease_expiry: OnLeaseExpiry,
    attempt_id: str,
    *,
    ttl: Optional[float],
    lease_duration: Optional[float],
    labels: Any,
) -> service.BeginRequest:
    """All of a Begin but its wait_timeout."""
    begin = service.BeginRequest(
        merchant_id=key.merchant_id,
        idempotency_key=key.idempotency_key,
        operation=request.operation,
        attempt_id=attempt_id,
        on_lease_expiry=_EXPIRY_TO_WIRE[on_lease_expiry],
        labels=labels,
    )
    if isinstance(request.content, Fingerprint):
        begin.fingerprint = request.content.sha256
        begin.fingerprint_scheme = request.content.scheme
    else:
        begin.payload.data = request.content.data
        begin.payload.content_type = request.content.content_type
    if ttl is not None:
        set_duration(ttl, begin.ttl)
    if lease_duration is not None:
        set_duration(lease_duration, begin.lease_duration)
    return begin


def renew_request(begin: service.BeginRequest) -> service.RenewRequest:
    """For the same attempt and the same lease."""
    renew = service.RenewRequest(
        merchant_id=begin.merchant_id,
        idempotency_key=begin.idempotency_key,
        attempt_id=begin.attempt_id,
    )
    if begin.HasField("lease_duration"):
        renew.lease_duration.CopyFrom(begin.lease_duration)
    return renew


def record_request(begin: service.BeginRequest, work: WorkResult) -> RecordRequest:
    """The Complete or Fail of that attempt for what its work came to."""
    if work.outcome is not None:
        return service.CompleteRequest(
            merchant_id=begin.merchant_id,
            idempotency_key=begin.idempotency_key,
            attempt_id=begin.attempt_id,
            outcome=_outcome_to_wire(work.outcome),
        )
    failure = work.failure
    assert failure is not None  # noqa: S101 - WorkResult has exactly one of the two
    fail = service.FailRequest(
        merchant_id=begin.merchant_id,
        idempotency_key=begin.idempotency_key,
        attempt_id=begin.attempt_id,
    )
    fail.failure.disposition = _DISPOSITION_TO_WIRE[failure.disposition]
    fail.failure.code = failure.code
    fail.failure.message = failure.message
    if failure.outcome is not None:
        fail.failure.outcome.CopyFrom(_outcome_to_wire(failure.outcome))
    return fail


def omit_body(request: RecordRequest) -> bool:
    """Puts the body's size and digest in its place; False if there is no body to omit."""
    if isinstance(request, service.CompleteRequest):
        outcome = request.outcome
    elif request.failure.HasField("outcome"):
        outcome = request.failure.outcome
    else:
        return False
    if not outcome.HasField("body"):
        return False
    outcome.body_size = len(outcome.body)
    outcome.body_sha256 = hashlib.sha256(outcome.body).digest()
    outcome.body_omitted = True
    outcome.ClearField("body")
    return True


def _outcome_to_wire(outcome: Outcome) -> record.Outcome:
    message = record.Outcome(
        status_code=outcome.status_code,
        headers=[record.Header(name=name, value=value) for name, value in outcome.headers],
        content_type=outcome.content_type,
        response_id=outcome.response_id,
        body_omitted=outcome.body_omitted,
    )
    if outcome.body is not None:
        message.body = outcome.body
    # An outcome that came from a lookup has both beside its body; recorded they are refused there.
    if outcome.body_omitted:
        if outcome.body_size is not None:
            message.body_size = outcome.body_size
        message.body_sha256 = outcome.body_sha256
    return message


def outcome_from_wire(message: record.Outcome) -> Outcome:
    """As recorded."""
    return Outcome(
        status_code=message.status_code,
        headers=tuple((header.name, header.value) for header in message.headers),
        content_type=message.content_type,
        body=message.body if message.HasField("body") else None,
        response_id=message.response_id,
        body_omitted=message.body_omitted,
        body_size=message.body_size if message.HasField("body_size") else None,
        body_sha256=message.body_sha256,
    )


def _failure_from_wire(message: record.Failure) -> Failure:
    return Failure(
        disposition=_DISPOSITION_FROM_WIRE.get(message.disposition, Disposition.UNKNOWN),
        code=message.code,
        message=message.message,
        outcome=outcome_from_wire(message.outcome) if message.HasField("outcome") else None,
    )


def expiry_from_wire(action: int) -> OnLeaseExpiry:
    """The record's value in force; one that this client does not know is the strict one."""
    if action == record.LEASE_EXPIRY_ACTION_TAKE_OVER:
        return OnLeaseExpiry.TAKE_OVER
    return OnLeaseExpiry.HOLD


def previous_from_wire(message: record.PreviousAttempt) -> PreviousAttempt:
    """How the attempt before ended."""
    return PreviousAttempt(
        attempt_number=message.attempt_number,
        start_time=instant_of(message.start_time),
        lease_expire_time=instant_of(message.lease_expire_time),
        failure=_failure_from_wire(message.failure) if message.HasField("failure") else None,
    )


def replayed_from_wire(response: service.BeginResponse) -> Optional[Replayed]:
    """None if there is no answer in it."""
    replay = response.replay
    answer = replay.WhichOneof("answer")
    if answer is None:
        return None
    return Replayed(
        outcome=outcome_from_wire(replay.outcome) if answer == "outcome" else None,
        failure=_failure_from_wire(replay.failure) if answer == "failure" else None,
        record_id=response.record_id,
        attempt_number=replay.attempt_number,
        start_time=instant_of(replay.start_time),
        finish_time=instant_of(replay.finish_time),
    )


def in_progress_from_wire(response: service.BeginResponse) -> InProgress:
    """Somebody else's attempt."""
    message = response.in_progress
    return InProgress(
        retry_after=timedelta(seconds=span_of(message.retry_after)),
        lease_remaining=timedelta(seconds=span_of(message.lease_remaining)),
        record_id=response.record_id,
        attempt_number=message.attempt_number,
        start_time=instant_of(message.start_time),
    )


def record_from_wire(response: service.LookupResponse) -> Record:
    """All that Lookup shows."""

    def maybe(field: str) -> Any:
        return getattr(response, field) if response.HasField(field) else None

    finish_time, expire_time = maybe("finish_time"), maybe("expire_time")
    outcome, failure, previous = maybe("outcome"), maybe("failure"), maybe("previous_attempt")
    return Record(
        record_id=response.record_id,
        operation=response.operation,
        state=_STATE_FROM_WIRE.get(response.state, RecordState.IN_PROGRESS),
        expired=response.expired,
        create_time=instant_of(response.create_time),
        start_time=instant_of(response.start_time),
        finish_time=None if finish_time is None else instant_of(finish_time),
        expire_time=None if expire_time is None else instant_of(expire_time),
        on_lease_expiry=expiry_from_wire(response.on_lease_expiry),
        attempt_number=response.attempt_number,
        unknown_attempts=response.unknown_attempts,
        fencing_token=response.fencing_token,
        downstream_key=response.downstream_key,
        labels=dict(response.labels),
        outcome=None if outcome is None else outcome_from_wire(outcome),
        failure=None if failure is None else _failure_from_wire(failure),
        previous_attempt=None if previous is None else previous_from_wire(previous),
    )
