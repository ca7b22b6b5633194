"""What `fn` came to, and the result that is made of it. Shared with the fakes for tests."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional, Union

from ._flow import call_hook, is_interruption, logger
from ._generated import idempotency_service_pb2 as service
from ._lease import LeaseKeeper
from ._plan import Plan
from ._recording import Recorded
from ._wire import expiry_from_wire, previous_from_wire
from .errors import IdempotencyError, OutcomeNotRecorded
from .options import Hooks
from .types import Completed, Disposition, Failed, Failure, Key, WorkResult

# How long a caller that is gone is still kept for the record: usually it takes milliseconds, and
# then the caller gets the true answer.
RECORD_GRACE = 1.0

_CODE = "EXCEPTION"
# What the exception says stays with the caller: it may hold card numbers.
_MESSAGES = {
    Disposition.NOT_APPLIED: "the work raised, by its own account before any effect",
    Disposition.FINAL: "the work raised, by its own account for good",
    Disposition.UNKNOWN: "the work raised, and whether it had an effect is not known",
}

Classify = Optional[Callable[[BaseException], Disposition]]


def work_of_return(returned: Any) -> WorkResult:
    """What `fn` returned. Raises TypeError if it is none: then the work is unknown."""
    if not isinstance(returned, WorkResult):
        raise TypeError(f"fn must return a WorkResult, not {type(returned).__name__}")
    return returned


def work_of_exception(
    exception: BaseException, classify: Classify
) -> tuple[WorkResult, BaseException]:
    """What `fn` raised: unknown, unless `classify` knows better; and what is the caller's to get.

    That is the exception, unless `classify` was interrupted, as by Ctrl-C.
    """
    disposition: Any = Disposition.UNKNOWN
    # KeyboardInterrupt, SystemExit and GeneratorExit come from outside, and prove nothing.
    if classify is not None and isinstance(exception, (Exception, asyncio.CancelledError)):
        try:
            disposition = classify(exception)
        except BaseException as mistake:  # noqa: BLE001 - whatever it is, it knows nothing
            if is_interruption(mistake):
                exception = mistake
            # No traceback: it would show what `fn` raised, and that may hold card numbers.
            logger.error("classify raised %s, the work is unknown", type(mistake).__name__)
    if not isinstance(disposition, Disposition):
        disposition = Disposition.UNKNOWN
    return WorkResult(failure=Failure(disposition, _CODE, _MESSAGES[disposition])), exception


def result_of(
    work: WorkResult,
    exception: Optional[BaseException],
    recorded: Recorded,
    record_id: str,
    attempt_number: int,
) -> Union[Completed, Failed]:
    """Of work that is recorded."""
    if work.outcome is not None:
        return Completed(
            work.outcome, record_id, attempt_number, recorded.finish_time, recorded.without_body
        )
    failure = work.failure
    assert failure is not None  # noqa: S101 - WorkResult has exactly one of the two
    return Failed(
        failure,
        record_id,
        attempt_number,
        recorded.finish_time,
        exception,
        recorded.without_body,
    )


def still_recording(work: WorkResult, exception: Optional[BaseException]) -> OutcomeNotRecorded:
    """For a caller that has left before the record was made."""
    return OutcomeNotRecorded(
        "the caller has left; what the work came to is still being recorded",
        work=work,
        exception=exception,
        still_recording=True,
    )


def report_lost(
    hooks: Hooks,
    key: Key,
    work: WorkResult,
    exception: Optional[BaseException],
    error: IdempotencyError,
) -> None:
    """Completes the error of work whose record was lost, and tells the hook."""
    error.work = work
    error.exception = exception
    logger.error(
        "the outcome of an operation could not be recorded: %s %s", error.kind.value, error.reason
    )
    call_hook(hooks.on_outcome_not_recorded, key, work, error)


def report_unprotected(hooks: Hooks, plan: Plan, error: IdempotencyError) -> None:
    """Before `fn` runs without the service. The log names no key: it may hold a person's data."""
    logger.warning(
        "running unprotected, the service is away: operation %s, %s %s",
        plan.begin.operation,
        error.kind.value,
        error.reason,
    )
    call_hook(hooks.on_unprotected, plan.key, error)


def attempt_values(
    response: Optional[service.BeginResponse], keeper: LeaseKeeper
) -> dict[str, Any]:
    """The fields of an Attempt, all but its stop. No response: it is unprotected."""
    values: dict[str, Any] = {
        "stop_reason": keeper.reason,
        "lease_remaining": keeper.remaining,
    }
    if response is None:
        return {**values, "attempt_number": 0, "unprotected": True}
    started = response.started
    previous = None
    if started.HasField("previous_attempt"):
        previous = previous_from_wire(started.previous_attempt)
    return {
        **values,
        "record_id": response.record_id,
        "attempt_number": started.attempt_number,
        "fencing_token": started.fencing_token,
        "downstream_key": started.downstream_key,
        "unknown_attempts": started.unknown_attempts,
        "previous_attempt": previous,
        "repeated": started.repeated,
        "on_lease_expiry": expiry_from_wire(response.on_lease_expiry),
    }
