"""What the decorator `once` of both clients does besides calling run_once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from ._check import check_text, invalid
from .errors import InProgressError, WorkFailedError
from .options import RunOptions
from .types import (
    Completed,
    Failed,
    Fingerprint,
    InProgress,
    Key,
    OnLeaseExpiry,
    Outcome,
    Payload,
    Request,
    RunResult,
    Unprotected,
    WorkResult,
)

OnceContent = Union[Payload, Fingerprint]


@dataclass(frozen=True)
class Once:
    """The decorator's arguments."""

    operation: str
    on_lease_expiry: OnLeaseExpiry
    key: Callable[..., Key]
    payload: Callable[..., OnceContent]
    encode: Optional[Callable[[Any], Outcome]]
    decode: Optional[Callable[[Outcome], Any]]
    options: RunOptions

    def check(self, function: Any) -> None:
        """Raises InvalidField where the mistake is made, not at the first payment."""
        if not callable(function):
            raise invalid("fn", "must be callable")
        check_text("operation", self.operation, required=True)
        if not isinstance(self.on_lease_expiry, OnLeaseExpiry):
            raise invalid("on_lease_expiry", "must be an OnLeaseExpiry; there is no default")
        for name in ("key", "payload"):
            if not callable(getattr(self, name)):
                raise invalid(name, "must be callable")
        if (self.encode is None) != (self.decode is None):
            raise invalid("encode", "encode and decode go together")
        if not isinstance(self.options, RunOptions):
            raise invalid("options", "must be RunOptions")

    def key_of(self, *args: Any, **kwargs: Any) -> Key:
        """Of one call; run_once checks what it is."""
        return self.key(*args, **kwargs)

    def request_of(self, *args: Any, **kwargs: Any) -> Request:
        """Of one call; run_once checks what it is."""
        return Request(self.operation, self.payload(*args, **kwargs))

    def work_of(self, returned: Any) -> Any:
        """What the function returned, as a WorkResult; in `fn`, so that mistakes are unknown."""
        if isinstance(returned, WorkResult) or self.encode is None:
            return returned
        return WorkResult.completed(self.encode(returned))

    def value_of(self, outcome: Outcome) -> Any:
        """What the caller gets."""
        return outcome if self.decode is None else self.decode(outcome)


def answer_of(result: RunResult) -> Outcome:
    """The outcome. Raises InProgressError or WorkFailedError for a result that has none."""
    if isinstance(result, InProgress):
        raise InProgressError(result)
    if isinstance(result, Unprotected):
        outcome, failure = result.work.outcome, result.work.failure
    elif isinstance(result, Completed):
        outcome, failure = result.outcome, None
    elif isinstance(result, Failed):
        outcome, failure = None, result.failure
    else:
        outcome, failure = result.outcome, result.failure
    if outcome is not None:
        return outcome
    assert failure is not None and not isinstance(result, Completed)  # noqa: S101, PT018
    exception = result.exception if isinstance(result, (Failed, Unprotected)) else None
    raise WorkFailedError(result, failure) from exception
