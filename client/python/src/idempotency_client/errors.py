"""The ways in which a call comes to nothing, one exception a name.

The one thing to look at first is ``work``: ``None`` means that ``fn`` did not run, and nothing
happened by this call. If it is there, ``fn`` did run, and this is what it came to, although the
record could not be made of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Mapping, Optional, Sequence, Union

if TYPE_CHECKING:
    from .types import Failed, Failure, InProgress, Replayed, Unprotected, WorkResult


class ErrorKind(enum.Enum):
    """The names, the same in the clients of all languages."""

    INVALID_FIELD = "InvalidField"
    KEY_REUSED = "KeyReused"
    LEASE_LOST = "LeaseLost"
    OUTCOME_CONFLICT = "OutcomeConflict"
    NEEDS_RESOLUTION = "NeedsResolution"
    RECORD_NOT_FOUND = "RecordNotFound"
    UNAUTHENTICATED = "Unauthenticated"
    PERMISSION_DENIED = "PermissionDenied"
    RATE_LIMITED = "RateLimited"
    REQUEST_TOO_LARGE = "RequestTooLarge"
    UNAVAILABLE = "Unavailable"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    CANCELLED = "Cancelled"
    OUTCOME_NOT_RECORDED = "OutcomeNotRecorded"
    INTERNAL = "Internal"


@dataclass(frozen=True)
class FieldViolation:
    """A bad field: its path, such as ``outcome.headers[3].name``, and what is wrong with it."""

    field: str
    description: str


class IdempotencyError(Exception):
    """A call that ended without an answer.

    Attributes:
        kind: Its name.
        message: For people; may change. Holds no body, key or attempt id.
        reason: The service's word, such as ``STORE_UNAVAILABLE``; empty when it gave none.
        grpc_code: gRPC's status code; 0 when no call failed.
        violations: The bad fields, of ``InvalidField``.
        metadata: What the service adds to the reason: for ``KeyReused`` the record's id, state and
            creation.
        retry_after: How long to wait before another try; ``None`` where waiting does not help, or
            nothing is known.
        work: What ``fn`` came to, exactly when it ran.
        exception: What ``fn`` raised, if it did.
        still_recording: Only of ``OutcomeNotRecorded``: the caller has left, and the record is
            still being made in the background.
    """

    kind: ClassVar[ErrorKind]

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        grpc_code: int = 0,
        violations: Sequence[FieldViolation] = (),
        metadata: Optional[Mapping[str, str]] = None,
        retry_after: Optional[timedelta] = None,
        work: Optional[WorkResult] = None,
        exception: Optional[BaseException] = None,
        still_recording: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.grpc_code = grpc_code
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after
        self.work = work
        self.exception = exception
        self.still_recording = still_recording

    def __reduce__(self) -> tuple[Any, ...]:
        # Without it an error would not survive the way back from a worker process.
        return (type(self), (self.message,), self.__dict__)


class InvalidField(IdempotencyError):
    """A field is wrong; ``violations`` names it. A mistake in the program."""

    kind = ErrorKind.INVALID_FIELD


class KeyReused(IdempotencyError):
    """The key is in use for another request. A new request needs a new key."""

    kind = ErrorKind.KEY_REUSED


class LeaseLost(IdempotencyError):
    """The attempt is over; a newer one may have the work."""

    kind = ErrorKind.LEASE_LOST


class OutcomeConflict(IdempotencyError):
    """This attempt recorded something else before; the first stays."""

    kind = ErrorKind.OUTCOME_CONFLICT


class NeedsResolution(IdempotencyError):
    """An attempt ended unknown and nobody may start another. Never go round it with another key."""

    kind = ErrorKind.NEEDS_RESOLUTION


class RecordNotFound(IdempotencyError):
    """Nothing is known about the key."""

    kind = ErrorKind.RECORD_NOT_FOUND


class Unauthenticated(IdempotencyError):
    """No or bad credentials."""

    kind = ErrorKind.UNAUTHENTICATED


class PermissionDenied(IdempotencyError):
    """Not this caller's merchant or right."""

    kind = ErrorKind.PERMISSION_DENIED


class RateLimited(IdempotencyError):
    """The merchant is over its rate; ``retry_after`` says how long to wait."""

    kind = ErrorKind.RATE_LIMITED


class RequestTooLarge(IdempotencyError):
    """The request is over what the service takes; send a ``Fingerprint`` instead of the payload."""

    kind = ErrorKind.REQUEST_TOO_LARGE


class Unavailable(IdempotencyError):
    """The service, or its database, cannot be reached."""

    kind = ErrorKind.UNAVAILABLE


class DeadlineExceeded(IdempotencyError):
    """The service did not answer in time, or the caller's own time is over."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class Cancelled(IdempotencyError):
    """The caller cancelled."""

    kind = ErrorKind.CANCELLED


class OutcomeNotRecorded(IdempotencyError):
    """The work has ended, and what it came to is not recorded (or not yet: ``still_recording``)."""

    kind = ErrorKind.OUTCOME_NOT_RECORDED


class Internal(IdempotencyError):
    """The service failed, or gave an answer that this client does not understand."""

    kind = ErrorKind.INTERNAL


ERROR_TYPES: Mapping[ErrorKind, type[IdempotencyError]] = {
    error_type.kind: error_type
    for error_type in (
        InvalidField,
        KeyReused,
        LeaseLost,
        OutcomeConflict,
        NeedsResolution,
        RecordNotFound,
        Unauthenticated,
        PermissionDenied,
        RateLimited,
        RequestTooLarge,
        Unavailable,
        DeadlineExceeded,
        Cancelled,
        OutcomeNotRecorded,
        Internal,
    )
}
"""The exception of each kind."""


class ResultError(Exception):
    """What a function under ``once`` raises for a result that is no outcome: ``result``."""

    result: Union[InProgress, Failed, Replayed, Unprotected]


class InProgressError(ResultError):
    """Somebody else is at it, the function did not run. ``result.retry_after`` says when to ask."""

    result: InProgress

    def __init__(self, result: InProgress) -> None:
        super().__init__("the work is in progress elsewhere")
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.result,))


class WorkFailedError(ResultError):
    """The work failed, now or before: ``failure``. ``__cause__`` is what the function raised."""

    result: Union[Failed, Replayed, Unprotected]

    def __init__(self, result: Union[Failed, Replayed, Unprotected], failure: Failure) -> None:
        super().__init__(f"the work failed: {failure.disposition.value}")
        self.result = result
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.result, self.failure))
