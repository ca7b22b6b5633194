"""What both fakes know of a key. No clock, no threads: the fakes hold the lock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Optional, Union

from ._recording import Recorded
from ._work import report_lost, result_of
from .errors import ERROR_TYPES, ErrorKind, IdempotencyError
from .options import Hooks
from .types import (
    Completed,
    Disposition,
    Failed,
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


@dataclass(frozen=True)
class Running:
    """An attempt under way: the fields of Attempt that a fake knows."""

    values: dict[str, Any]

    @property
    def record_id(self) -> str:
        """The record's."""
        return str(self.values["record_id"])

    @property
    def attempt_number(self) -> int:
        """From 1."""
        return int(self.values["attempt_number"])


class Entry:
    """One key's record. `end` is of its last attempt; None: it crashed, or is running."""

    def __init__(self, number: int, request: Request) -> None:
        self.operation = request.operation
        self.content = content_of(request)
        self.record_id = _uuid("0000fa4e", number)
        self.downstream_key = _uuid("0000d0e5", number)
        self.labels: dict[str, str] = {}
        self.create_time = self.start_time = self.finish_time = _now()
        self.on_lease_expiry = OnLeaseExpiry.TAKE_OVER
        self.is_running = False
        self.attempt_number = 0
        self.unknown_attempts = 0
        self.fencing_token = 0
        self.previous: Optional[PreviousAttempt] = None
        self.end: Optional[WorkResult] = None

    @property
    def failure(self) -> Optional[Failure]:
        """What its last attempt reported, if it failed."""
        return None if self.end is None else self.end.failure

    @property
    def outcome(self) -> Optional[Outcome]:
        """What its last attempt recorded, if it completed."""
        return None if self.end is None else self.end.outcome

    @property
    def state(self) -> RecordState:
        """As Lookup shows it."""
        if self.is_running:
            return RecordState.IN_PROGRESS
        if self.outcome is not None:
            return RecordState.COMPLETED
        if self.failure is None or self.failure.disposition is Disposition.UNKNOWN:
            return RecordState.ABANDONED
        if self.failure.disposition is Disposition.FINAL:
            return RecordState.FAILED
        return RecordState.RELEASED


class FakeState:
    """All keys, and what the next call is to come to. Not thread-safe."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.next_start_error: Optional[IdempotencyError] = None
        self.loses_next_record = False
        self._entries: dict[Key, Entry] = {}
        self._last_number = 0

    def entry_of(self, key: Key, request: Request) -> Entry:
        """The key's record, a new one if there is none. Raises what the call is refused for."""
        if self.next_start_error is not None:
            error, self.next_start_error = self.next_start_error, None
            raise error
        entry = self._entries.get(key)
        if entry is None:
            self._last_number += 1
            entry = self._entries[key] = Entry(self._last_number, request)
        elif (entry.operation, entry.content) != (request.operation, content_of(request)):
            raise _error(ErrorKind.KEY_REUSED)
        return entry

    def answer_without_work(self, entry: Entry) -> Union[InProgress, Replayed, None]:
        """None: the work is to be done."""
        if entry.is_running:
            return InProgress(
                retry_after=timedelta(milliseconds=100),
                lease_remaining=timedelta(seconds=60),
                record_id=entry.record_id,
                attempt_number=entry.attempt_number,
                start_time=entry.start_time,
            )
        state = entry.state
        if state in (RecordState.COMPLETED, RecordState.FAILED):
            return Replayed(
                entry.outcome,
                entry.failure,
                entry.record_id,
                entry.attempt_number,
                entry.start_time,
                entry.finish_time,
            )
        is_held = entry.on_lease_expiry is OnLeaseExpiry.HOLD
        if entry.attempt_number > 0 and state is RecordState.ABANDONED and is_held:
            raise _error(ErrorKind.NEEDS_RESOLUTION)
        return None

    def start(self, entry: Entry, on_lease_expiry: OnLeaseExpiry, labels: Any) -> Running:
        """Makes the record's next attempt."""
        if entry.attempt_number == 0:
            entry.labels = dict(labels)
        else:
            entry.previous = PreviousAttempt(
                entry.attempt_number, entry.start_time, _now(), entry.failure
            )
            if entry.state is RecordState.ABANDONED:
                entry.unknown_attempts += 1
        self._last_number += 1
        entry.fencing_token = self._last_number
        entry.attempt_number += 1
        entry.start_time = _now()
        entry.end = None
        entry.is_running = True
        if on_lease_expiry is OnLeaseExpiry.HOLD:
            entry.on_lease_expiry = on_lease_expiry
        return Running(
            {
                "record_id": entry.record_id,
                "attempt_number": entry.attempt_number,
                "fencing_token": entry.fencing_token,
                "downstream_key": entry.downstream_key,
                "unknown_attempts": entry.unknown_attempts,
                "previous_attempt": entry.previous,
                "on_lease_expiry": entry.on_lease_expiry,
            }
        )

    def crash(self, key: Key, request: Request, on_lease_expiry: OnLeaseExpiry) -> None:
        """As if a process had died in `fn`."""
        entry = self.entry_of(key, request)
        if self.answer_without_work(entry) is None:
            self.start(entry, on_lease_expiry, {})
            entry.is_running = False

    def end(
        self,
        key: Key,
        running: Running,
        work: WorkResult,
        exception: Optional[BaseException],
    ) -> Union[Completed, Failed]:
        """Records, or loses, what an attempt came to. Raises OutcomeNotRecorded."""
        entry = self._entries[key]
        entry.is_running = False
        if self.loses_next_record:
            self.loses_next_record = False
            error = _error(ErrorKind.OUTCOME_NOT_RECORDED)
            report_lost(self.hooks, key, work, exception, error)
            raise error from exception
        entry.end = work
        entry.finish_time = _now()
        recorded = Recorded(entry.finish_time, without_body=False)
        return result_of(work, exception, recorded, running.record_id, running.attempt_number)

    def record(self, key: Key, *, include_body: bool) -> Record:
        """As Lookup shows it. Raises RecordNotFound."""
        entry = self._entries.get(key)
        if entry is None or entry.attempt_number == 0:
            raise _error(ErrorKind.RECORD_NOT_FOUND)
        outcome = entry.outcome
        if outcome is not None and not include_body:
            outcome = Outcome(
                outcome.status_code,
                outcome.headers,
                outcome.content_type,
                None,
                outcome.response_id,
                body_size=None if outcome.body is None else len(outcome.body),
            )
        return Record(
            record_id=entry.record_id,
            operation=entry.operation,
            state=entry.state,
            expired=False,
            create_time=entry.create_time,
            start_time=entry.start_time,
            finish_time=None if entry.end is None else entry.finish_time,
            expire_time=None,
            on_lease_expiry=entry.on_lease_expiry,
            attempt_number=entry.attempt_number,
            unknown_attempts=entry.unknown_attempts,
            fencing_token=entry.fencing_token,
            downstream_key=entry.downstream_key,
            labels=dict(entry.labels),
            outcome=outcome,
            failure=entry.failure,
            previous_attempt=entry.previous,
        )


def content_of(request: Request) -> str:
    """Two requests are the same when these are: JSON is compared as JSON."""
    content = request.content
    if isinstance(content, Fingerprint):
        return f"sha256 {content.sha256.hex()}"
    media_type = content.content_type.split(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        try:
            document = json.loads(content.data, parse_int=Decimal, parse_float=Decimal)
        except ValueError:
            pass
        else:
            return f"json {_canonical(document)}"
    return f"bytes {content.data.hex()}"


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(f"{json.dumps(name)}:{_canonical(one)}" for name, one in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_canonical(one) for one in value) + "]"
    if isinstance(value, Decimal):
        return str(value.normalize()) if value else "0"
    return json.dumps(value)


def _error(kind: ErrorKind) -> IdempotencyError:
    return ERROR_TYPES[kind]("of the fake runner", reason=kind.name)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _uuid(prefix: str, number: int) -> str:
    """The text of a UUID, so that code which parses one can be tested."""
    return f"{prefix}-0000-8000-8000-{number:012}"
