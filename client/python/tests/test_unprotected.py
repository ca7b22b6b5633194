"""Rule 11: when `fn` may run without the service, with a clock and a service that are played."""

from __future__ import annotations

from typing import Any

import pytest

from idempotency_client import DeadlineExceeded, IdempotencyError, OnUnavailable, Unavailable
from idempotency_client import _failure as code
from idempotency_client._flow import Settle
from idempotency_client._plan import Caller
from idempotency_client._start import Granted, Start, Unprotect
from playing import AWAY, Clock, begin, config, in_progress, patient, plan, refused, released

UNPROTECTED: dict[str, Any] = {"on_unavailable": OnUnavailable.RUN_UNPROTECTED}


@pytest.mark.parametrize("reason", AWAY)
def test_unprotected_after_a_service_that_says_it_is_away(clock: Clock, reason: str) -> None:
    failures = [refused(code.UNAVAILABLE, reason) for _ in range(100)]
    verdict, start, _ = begin(clock, *failures, given=plan(start_timeout=3, **UNPROTECTED))
    assert isinstance(verdict, Unprotect)
    assert verdict.error.reason == reason
    assert not released(start)


def test_unprotected_after_calls_that_were_never_sent(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, was_down=True) for _ in range(100)]
    verdict, _, _ = begin(clock, *failures, given=plan(start_timeout=3, **UNPROTECTED))
    assert isinstance(verdict, Unprotect)


def test_never_unprotected_unless_it_is_typed_out(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, "OVERLOADED") for _ in range(100)]
    verdict, _, _ = begin(clock, *failures, given=plan(start_timeout=3))
    assert isinstance(verdict, Unavailable)


@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize(
    "doubt",
    [
        refused(code.UNAVAILABLE),
        refused(code.DEADLINE_EXCEEDED),
        refused(code.DEADLINE_EXCEEDED, was_down=True),
        refused(code.UNAVAILABLE, "COMMIT_UNKNOWN"),
        refused(code.UNAVAILABLE, "SCHEMA_INCOMPATIBLE"),
        refused(code.RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED"),
        refused(code.UNAUTHENTICATED, "CREDENTIALS_INVALID"),
        in_progress(0.0),
    ],
)
def test_one_try_in_doubt_forbids_to_run_unprotected(clock: Clock, doubt: Any, at: int) -> None:
    failures: list[Any] = [refused(code.UNAVAILABLE, "OVERLOADED") for _ in range(100)]
    failures[at] = doubt
    given = plan(start_timeout=7, wait_timeout=5, **UNPROTECTED)
    verdict, _, _ = begin(clock, *failures, given=given)
    assert not isinstance(verdict, (Unprotect, Granted))


@pytest.mark.parametrize(
    "refusal",
    [
        refused(code.PERMISSION_DENIED, "MERCHANT_FORBIDDEN"),
        refused(code.UNAVAILABLE, "OVERLOADED", must_not_retry=True),
    ],
)
def test_never_unprotected_before_start_timeout_is_over(clock: Clock, refusal: Any) -> None:
    verdict, _, _ = begin(clock, refusal, given=plan(**UNPROTECTED))
    assert isinstance(verdict, IdempotencyError)


def test_never_unprotected_for_a_caller_that_is_gone(clock: Clock) -> None:
    failures = [refused(code.UNAVAILABLE, "OVERLOADED") for _ in range(100)]
    given = plan(start_timeout=30, **UNPROTECTED)
    verdict, _, _ = begin(clock, *failures, given=given, caller=Caller(2.0))
    assert isinstance(verdict, DeadlineExceeded)


def test_a_channel_that_never_settles_proves_nothing(clock: Clock) -> None:
    start = Start(plan(start_timeout=3, **UNPROTECTED), config(), patient())
    flow = start.flow()
    step = next(flow)
    assert step == Settle(waits=False, until=1003.0)
    clock.time = 1003.0
    with pytest.raises(StopIteration) as end:
        flow.send(False)  # noqa: FBT003 - a step's result
    assert isinstance(end.value.value, Unavailable)
    assert not released(start)
