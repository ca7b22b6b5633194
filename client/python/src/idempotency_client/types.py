"""What goes into a protected operation and what comes out of it, as frozen values.

All bounds are the service's: a value outside them is not cut to fit but refused, as
``InvalidField`` with the field's name. Lengths are bytes. Printable ASCII means 0x20 to 0x7E. Spans
that you give are a ``timedelta`` or a number of seconds; spans that you get are a ``timedelta``.
Instants are in UTC, by the database's clock.

No ``repr`` shows a body or a header: values end up in logs.

``Outcome``, ``Failure`` and ``WorkResult`` check the types of what they are given when they are
made, because that happens in your own code, after the work: there a mistake must not get lost.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Mapping, Optional, Sequence, Union

from ._check import check_bytes, check_int, check_text, clean_text, invalid
from .keys import business_key

Span = Union[timedelta, float, int]
"""A span of time: a ``timedelta``, or seconds."""

_MAX_CODE_BYTES = 64
_MAX_MESSAGE_BYTES = 1024

BUSINESS_KEY_TTL = timedelta(days=30)


@dataclass(frozen=True)
class Key:
    """Which operation this is: the same for every retry of it, and for nothing else.

    Attributes:
        merchant_id: Whose operation it is, 1 to 64 of ``A-Z a-z 0-9 . _ : -``.
        idempotency_key: 1 to 255 bytes of printable ASCII, compared byte for byte.
        ttl: How long the record answers unless ``RunOptions.ttl`` says otherwise; ``None``: the
            service's 24 h. Not part of the key's identity.
    """

    merchant_id: str
    idempotency_key: str
    ttl: Optional[Span] = field(default=None, compare=False)

    @classmethod
    def business(cls, merchant_id: str, kind: str, *parts: str) -> Key:
        """Makes a key of what the operation is about; see :func:`business_key`.

        Its record answers for 30 days by default: such a key never changes, while a day's
        retention ends. Raises ``InvalidField`` for a bad kind or part.
        """
        return cls(merchant_id, business_key(kind, *parts), BUSINESS_KEY_TTL)


@dataclass(frozen=True)
class Payload:
    """The request's body, up to 1 MiB. The service fingerprints it and does not keep it.

    Attributes:
        data: The bytes as they were received.
        content_type: At most 255 bytes of printable ASCII. ``application/json`` and types that end
            in ``+json`` are compared as JSON documents, all others byte for byte.
    """

    data: bytes = field(repr=False)
    content_type: str = ""


@dataclass(frozen=True)
class Fingerprint:
    """Instead of the body: a SHA-256 that all callers of the key make in the same way.

    Attributes:
        sha256: Exactly 32 bytes, not hexadecimal.
        scheme: 0: the callers' own way. 1: the service's canonical form.
    """

    sha256: bytes
    scheme: int = 0


@dataclass(frozen=True)
class Request:
    """What is asked for. The same key with another request is refused as ``KeyReused``.

    Attributes:
        operation: What is done, a constant text such as ``POST /payments``: 1 to 128 bytes of
            printable ASCII.
        content: The body, or a fingerprint of it.
    """

    operation: str
    content: Union[Payload, Fingerprint]


class OnLeaseExpiry(enum.Enum):
    """What happens when a process dies, or hangs, between the start of the work and its record.

    There is no default: it depends on the partner.
    """

    TAKE_OVER = "TAKE_OVER"
    """The next call does the work again and is told (``Attempt.unknown_attempts``). For partners
    that are idempotent by the downstream key, or can be asked."""
    HOLD = "HOLD"
    """Nobody does the work again (``NeedsResolution``) until somebody has found out what happened.
    For partners that would pay twice."""


class Disposition(enum.Enum):
    """What is known about an attempt that did not succeed."""

    NOT_APPLIED = "not_applied"
    """Nothing happened, for certain. The key is free for the next call."""
    FINAL = "final"
    """The operation failed for good; the failure is the answer, and is replayed like one."""
    UNKNOWN = "unknown"
    """It may have happened. The default for all that is not known to be one of the others."""


@dataclass(frozen=True)
class Outcome:
    """The operation's answer. Every later call with the key gets exactly this, byte for byte.

    Attributes:
        status_code: In your own protocol, not interpreted: any 32-bit integer.
        headers: Pairs of a name (1 to 128 token characters of RFC 9110) and a value (any bytes); at
            most 64, and 16 KiB of names and values together. Order and repeats are kept.
        content_type: At most 255 bytes of printable ASCII.
        body: ``None`` and ``b""`` are different. 256 KiB unless the service is set otherwise; a
            longer one is recorded by its size and digest alone.
        response_id: Your own id of the answer, such as the payment's: at most 255 bytes of
            printable ASCII.
        body_omitted: In answers: there was a body, it was too large to be recorded.
        body_size: In answers: its size in bytes.
        body_sha256: In answers: its SHA-256, 32 bytes; empty if there was no body.
    """

    status_code: int = 0
    headers: Sequence[tuple[str, bytes]] = field(default=(), repr=False)
    content_type: str = ""
    body: Optional[bytes] = field(default=None, repr=False)
    response_id: str = ""
    body_omitted: bool = False
    body_size: Optional[int] = None
    body_sha256: bytes = b""

    def __post_init__(self) -> None:
        check_int("outcome.status_code", self.status_code, bits=32)
        check_text("outcome.content_type", self.content_type)
        check_text("outcome.response_id", self.response_id)
        if self.body is not None:
            check_bytes("outcome.body", self.body)
        if not isinstance(self.body_omitted, bool):
            raise invalid("outcome.body_omitted", "must be a bool")
        if self.body_size is not None:
            check_int("outcome.body_size", self.body_size, bits=64)
        check_bytes("outcome.body_sha256", self.body_sha256)
        given: Any = self.headers
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise invalid("outcome.headers", "must be a sequence of pairs (str, bytes)")
        headers = []
        for at, header in enumerate(given):
            if not isinstance(header, (tuple, list)) or len(header) != len(("name", "value")):
                raise invalid(f"outcome.headers[{at}]", "must be a pair (str, bytes)")
            check_text(f"outcome.headers[{at}].name", header[0])
            check_bytes(f"outcome.headers[{at}].value", header[1])
            headers.append((header[0], header[1]))
        object.__setattr__(self, "headers", tuple(headers))


@dataclass(frozen=True)
class Failure:
    """How the work failed.

    Attributes:
        disposition: What is known about its effects.
        code: Your own code; cut to 64 bytes of UTF-8.
        message: Words for people; cut to 1,024 bytes of UTF-8, because a failure must
            be recorded however long its words are. No secrets: support staff read them.
        outcome: The answer that goes with it, if there is one.
    """

    disposition: Disposition
    code: str = ""
    message: str = ""
    outcome: Optional[Outcome] = None

    def __post_init__(self) -> None:
        if not isinstance(self.disposition, Disposition):
            raise invalid("failure.disposition", "must be a Disposition")
        if not isinstance(self.code, str):
            raise invalid("failure.code", "must be a str")
        if not isinstance(self.message, str):
            raise invalid("failure.message", "must be a str")
        if self.outcome is not None and not isinstance(self.outcome, Outcome):
            raise invalid("failure.outcome", "must be an Outcome")
        # Here, so that the first answer is what later ones replay.
        object.__setattr__(self, "code", clean_text(self.code, _MAX_CODE_BYTES))
        object.__setattr__(self, "message", clean_text(self.message, _MAX_MESSAGE_BYTES))


@dataclass(frozen=True)
class WorkResult:
    """What the work came to: what ``fn`` returns. Made by the four methods below.

    Attributes:
        outcome: Of work that is done, else ``None``.
        failure: Of work that is not, else ``None``.
    """

    outcome: Optional[Outcome] = None
    failure: Optional[Failure] = None

    def __post_init__(self) -> None:
        if self.outcome is not None and not isinstance(self.outcome, Outcome):
            raise invalid("outcome", "must be an Outcome")
        if self.failure is not None and not isinstance(self.failure, Failure):
            raise invalid("failure", "must be a Failure")
        if (self.outcome is None) == (self.failure is None):
            raise invalid("outcome", "exactly one of outcome and failure must be given")

    @classmethod
    def completed(cls, outcome: Outcome) -> WorkResult:
        """Done. ``outcome`` is the answer from now on."""
        return cls(outcome=outcome)

    @classmethod
    def not_applied(cls, code: str, message: str) -> WorkResult:
        """Only with proof that nothing happened and nothing will.

        The request was never sent, or the partner refused it. A time-out, a reset connection or a
        5xx is no proof.
        """
        return cls(failure=Failure(Disposition.NOT_APPLIED, code, message))

    @classmethod
    def final(cls, code: str, message: str, outcome: Optional[Outcome] = None) -> WorkResult:
        """Failed for good: card declined, account closed. Every later call gets this answer."""
        return cls(failure=Failure(Disposition.FINAL, code, message, outcome))

    @classmethod
    def unknown(cls, code: str, message: str) -> WorkResult:
        """Not known. Always allowed, never wrong."""
        return cls(failure=Failure(Disposition.UNKNOWN, code, message))


@dataclass(frozen=True)
class PreviousAttempt:
    """How the attempt before this one ended.

    Attributes:
        attempt_number: From 1.
        start_time: When it was started.
        lease_expire_time: When its lease ended.
        failure: What it reported, not applied or unknown; ``None``: its lease ran out, nothing is
            known.
    """

    attempt_number: int
    start_time: datetime
    lease_expire_time: datetime
    failure: Optional[Failure] = None


@dataclass(frozen=True)
class Completed:
    """This call did the work, and its outcome is recorded.

    ``recorded_without_body``: the outcome's body was too large for the service; its size and digest
    are recorded. ``outcome`` still has it.
    """

    outcome: Outcome
    record_id: str
    attempt_number: int
    finish_time: datetime
    recorded_without_body: bool = False


@dataclass(frozen=True)
class Failed:
    """This call did the work, it failed, and that is recorded.

    ``exception``: what ``fn`` raised, if it did.
    """

    failure: Failure
    record_id: str
    attempt_number: int
    finish_time: datetime
    exception: Optional[BaseException] = None
    recorded_without_body: bool = False


@dataclass(frozen=True)
class Replayed:
    """The work was done before, ``fn`` did not run: the answer that was recorded then.

    Exactly one of ``outcome`` and ``failure`` (a final one) is there. The attempt's number and
    times are those of the attempt that did it.
    """

    outcome: Optional[Outcome]
    failure: Optional[Failure]
    record_id: str
    attempt_number: int
    start_time: datetime
    finish_time: datetime


@dataclass(frozen=True)
class InProgress:
    """Somebody else is at it, ``fn`` did not run. Over HTTP: 409 with ``Retry-After``."""

    retry_after: timedelta
    lease_remaining: timedelta
    record_id: str
    attempt_number: int
    start_time: datetime


@dataclass(frozen=True)
class Unprotected:
    """``fn`` ran without the service, as you had typed out. Nothing is recorded.

    ``work`` is what it came to, ``exception`` what it raised, if it did.
    """

    work: WorkResult
    exception: Optional[BaseException] = None


RunResult = Union[Completed, Replayed, InProgress, Failed, Unprotected]
"""What ``run_once`` returns. Everything else it raises, as an ``IdempotencyError``."""


def outcome_of(result: RunResult) -> Optional[Outcome]:
    """Return the recorded outcome, whether this call did the work or it was replayed.

    ``None`` for everything else, final failures and unprotected work included.
    """
    return result.outcome if isinstance(result, (Completed, Replayed)) else None


class RecordState(enum.Enum):
    """Where a record stands."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    RELEASED = "RELEASED"
    """The last attempt did not happen; the next call may start."""
    ABANDONED = "ABANDONED"
    """Money may have moved: the lease ran out, or the last attempt ended unknown."""


@dataclass(frozen=True)
class Record:
    """What ``lookup`` shows of a key.

    ``expired``: past its retention, the next call starts anew. ``expire_time`` is ``None`` while
    the record is not settled: such a record does not expire. The outcome's body is there only if
    asked for; its size and digest whenever there was one.
    """

    record_id: str
    operation: str
    state: RecordState
    expired: bool
    create_time: datetime
    start_time: datetime
    finish_time: Optional[datetime]
    expire_time: Optional[datetime]
    on_lease_expiry: OnLeaseExpiry
    attempt_number: int
    unknown_attempts: int
    fencing_token: int
    downstream_key: str
    labels: Mapping[str, str]
    outcome: Optional[Outcome]
    failure: Optional[Failure]
    previous_attempt: Optional[PreviousAttempt]
