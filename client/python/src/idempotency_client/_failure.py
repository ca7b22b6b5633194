"""What a failed call means: the one place where gRPC's statuses and details become errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Iterable, Mapping, Optional, Union

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from ._wire import span_of
from .errors import ERROR_TYPES, ErrorKind, FieldViolation, IdempotencyError

_DOMAIN = "idempotency.v1"
_PUSHBACK = "grpc-retry-pushback-ms"
_DETAILS = "grpc-status-details-bin"
_MILLIS = re.compile(r"0*[0-9]{1,10}")
_MOST_MILLIS = 2**31 - 1

OK = grpc.StatusCode.OK.value[0]
CANCELLED = grpc.StatusCode.CANCELLED.value[0]
UNKNOWN = grpc.StatusCode.UNKNOWN.value[0]
INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT.value[0]
DEADLINE_EXCEEDED = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED.value[0]
RESOURCE_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION.value[0]
ABORTED = grpc.StatusCode.ABORTED.value[0]
INTERNAL = grpc.StatusCode.INTERNAL.value[0]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE.value[0]
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED.value[0]

_KIND_OF_REASON = {
    "INVALID_FIELD": ErrorKind.INVALID_FIELD,
    "KEY_REUSED": ErrorKind.KEY_REUSED,
    "LEASE_LOST": ErrorKind.LEASE_LOST,
    "OUTCOME_CONFLICT": ErrorKind.OUTCOME_CONFLICT,
    # Only Renew answers this. The attempt has nothing left to hold.
    "ALREADY_FINISHED": ErrorKind.LEASE_LOST,
    "NEEDS_RESOLUTION": ErrorKind.NEEDS_RESOLUTION,
    "RECORD_NOT_FOUND": ErrorKind.RECORD_NOT_FOUND,
    "CREDENTIALS_MISSING": ErrorKind.UNAUTHENTICATED,
    "CREDENTIALS_INVALID": ErrorKind.UNAUTHENTICATED,
    "MERCHANT_FORBIDDEN": ErrorKind.PERMISSION_DENIED,
    "MERCHANT_RATE_LIMITED": ErrorKind.RATE_LIMITED,
    "OVERLOADED": ErrorKind.UNAVAILABLE,
    "DRAINING": ErrorKind.UNAVAILABLE,
    "STORE_UNAVAILABLE": ErrorKind.UNAVAILABLE,
    "SCHEMA_INCOMPATIBLE": ErrorKind.UNAVAILABLE,
    "COMMIT_UNKNOWN": ErrorKind.UNAVAILABLE,
    "INTERNAL": ErrorKind.INTERNAL,
}

# Without a reason, or with one that this client is too old for.
_KIND_OF_CODE = {
    INVALID_ARGUMENT: ErrorKind.INVALID_FIELD,
    RESOURCE_EXHAUSTED: ErrorKind.REQUEST_TOO_LARGE,
    UNAUTHENTICATED: ErrorKind.UNAUTHENTICATED,
    PERMISSION_DENIED: ErrorKind.PERMISSION_DENIED,
    UNAVAILABLE: ErrorKind.UNAVAILABLE,
    # Not by us: whoever cancels a call of his own does not ask what it came to.
    CANCELLED: ErrorKind.UNAVAILABLE,
    DEADLINE_EXCEEDED: ErrorKind.DEADLINE_EXCEEDED,
    NOT_FOUND: ErrorKind.RECORD_NOT_FOUND,
    ABORTED: ErrorKind.LEASE_LOST,
}

# docs/errors.md, "Did it happen?": no, with all reasons but two; of one that this client is too old
# for it is not known either.
_NO_EFFECT = frozenset(_KIND_OF_REASON) - {"COMMIT_UNKNOWN", "INTERNAL"}

# A try so refused was without effect, and the service itself says that it is away.
AWAY_REASONS = ("STORE_UNAVAILABLE", "OVERLOADED", "DRAINING")

_REFUSED_FOR_GOOD = (
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION,
    ABORTED,
    NOT_FOUND,
    PERMISSION_DENIED,
)


@dataclass(frozen=True)
class CallFailure:
    """One try that failed.

    `retry_after`: how many seconds the server asks to be left alone, by its trailer or RetryInfo.
    `must_not_retry`: the trailer says not to repeat the call at all. `was_down`: the channel had no
    connection before, during and after the try, as far as it could be told.
    """

    code: int
    message: str = ""
    reason: str = ""
    violations: tuple[FieldViolation, ...] = ()
    metadata: Optional[Mapping[str, str]] = None
    retry_after: Optional[float] = None
    must_not_retry: bool = False
    was_down: bool = False

    @property
    def kind(self) -> ErrorKind:
        """The error's name."""
        kind = _KIND_OF_REASON.get(self.reason)
        return kind if kind is not None else _KIND_OF_CODE.get(self.code, ErrorKind.INTERNAL)

    @property
    def was_never_sent(self) -> bool:
        """Whether the try certainly did not leave this process. The status text is no proof."""
        return self.was_down and self.code == UNAVAILABLE and not self.reason

    @property
    def may_have_effect(self) -> bool:
        """Whether the call, if it was sent, may have changed the record although it failed."""
        if self.reason:
            return self.reason not in _NO_EFFECT
        return self.code != RESOURCE_EXHAUSTED

    @property
    def says_away(self) -> bool:
        """Whether the service itself says that it cannot serve, and did nothing."""
        return self.code == UNAVAILABLE and self.reason in AWAY_REASONS

    @property
    def is_worth_repeating(self) -> bool:
        """Of Begin, Lookup, Renew. UNAUTHENTICATED is the caller's to judge: once."""
        if self.must_not_retry:
            return False
        return self.code in (UNAVAILABLE, DEADLINE_EXCEEDED) or self.kind is ErrorKind.RATE_LIMITED

    @property
    def is_worth_recording_again(self) -> bool:
        """Of Complete, Fail: false if the service refused it and always will."""
        return self.code not in _REFUSED_FOR_GOOD

    @property
    def is_too_large(self) -> bool:
        """Of Complete, Fail: refused for its size, so that it is recorded without its body."""
        if self.code == RESOURCE_EXHAUSTED:
            return True
        return self.code == INVALID_ARGUMENT and any(
            violation.field in ("outcome.body", "failure.outcome.body")
            for violation in self.violations
        )

    def error(self, kind: Optional[ErrorKind] = None) -> IdempotencyError:
        """As the caller's error; `kind` instead of its own."""
        return ERROR_TYPES[kind if kind is not None else self.kind](
            self.message,
            reason=self.reason,
            grpc_code=self.code,
            violations=self.violations,
            metadata=self.metadata,
            retry_after=None if self.retry_after is None else timedelta(seconds=self.retry_after),
        )


CLOSED = CallFailure(UNAVAILABLE, "the client is closed", must_not_retry=True)
"""A call of a channel that is closed. It was certainly not sent, but nothing depends on that."""


def unreadable(rpc: str) -> CallFailure:
    """An OK whose message cannot be parsed, or lacks what every answer has."""
    return CallFailure(INTERNAL, f"the service's answer to {rpc} is none that this client knows")


def failure_of(
    code: Union[grpc.StatusCode, int, None],
    message: Optional[str],
    trailers: Optional[Iterable[tuple[str, Union[str, bytes]]]],
    *,
    was_down: bool = False,
) -> CallFailure:
    """Reads a failed call's status and trailing metadata.

    What cannot be read is left out: a proxy may have put anything there.
    """
    number = code.value[0] if isinstance(code, grpc.StatusCode) else code
    reason = ""
    violations: list[FieldViolation] = []
    metadata: dict[str, str] = {}
    retry_after: Optional[float] = None
    must_not_retry = False
    for name, value in trailers or ():
        if name == _DETAILS and isinstance(value, bytes):
            for detail in _details(value):
                if isinstance(detail, error_details_pb2.ErrorInfo):
                    reason = detail.reason
                    metadata.update(detail.metadata)
                elif isinstance(detail, error_details_pb2.RetryInfo):
                    retry_after = span_of(detail.retry_delay)
                else:
                    violations.extend(
                        FieldViolation(one.field, one.description)
                        for one in detail.field_violations
                    )
    pushbacks = [value for name, value in trailers or () if name == _PUSHBACK]
    if pushbacks:
        # By gRPC's own rule: what is not one number that it can count says not to repeat.
        asked = _millis_of(pushbacks[0]) if len(pushbacks) == 1 else None
        must_not_retry = asked is None
        retry_after = retry_after if asked is None else asked / 1000
    return CallFailure(
        code=UNKNOWN if number is None else number,
        message=message or "",
        reason=reason,
        violations=tuple(violations),
        metadata=metadata,
        retry_after=retry_after,
        must_not_retry=must_not_retry,
        was_down=was_down,
    )


def _millis_of(value: Union[str, bytes]) -> Optional[int]:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not _MILLIS.fullmatch(text):
        return None
    millis = int(text.lstrip("0") or "0")
    return millis if millis <= _MOST_MILLIS else None


_Detail = Union[
    error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, error_details_pb2.BadRequest
]


def _details(data: bytes) -> list[_Detail]:
    try:
        status = status_pb2.Status.FromString(data)
    except DecodeError:
        return []
    found: list[_Detail] = []
    for packed in status.details:
        for detail_type in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.RetryInfo,
            error_details_pb2.BadRequest,
        ):
            detail = detail_type()
            if packed.TypeName() != detail.DESCRIPTOR.full_name:
                continue
            try:
                packed.Unpack(detail)
            except DecodeError:
                continue
            if isinstance(detail, error_details_pb2.ErrorInfo) and detail.domain != _DOMAIN:
                continue
            found.append(detail)
    return found
