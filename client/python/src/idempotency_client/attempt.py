"""The right to do the work, as ``fn`` gets it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Callable, Optional

from .keys import downstream_key_for
from .options import StopReason
from .types import OnLeaseExpiry, PreviousAttempt


def _endless() -> timedelta:
    return timedelta.max


def _no_reason() -> StopReason:
    return StopReason.NONE


@dataclass(frozen=True)
class AttemptBase:
    """What both clients' attempts have. Plain values, so that a test can make one.

    Attributes:
        record_id: The record's UUID.
        attempt_number: From 1; 0 if unprotected.
        fencing_token: Greater than every one granted for this key before. Hand it to systems that
            can refuse an older one. 0 if unprotected.
        downstream_key: A UUID, the same for all attempts of this record. Send it to the partner as
            its idempotency key. Empty if unprotected.
        unknown_attempts: How many attempts ended without a known result. Above 0: ask the partner
            before paying.
        previous_attempt: How the one before ended; ``None`` for the first.
        repeated: The service had started this attempt before; its answer was lost and asked for
            again. ``fn`` did not run then.
        on_lease_expiry: The record's value in force.
        unprotected: ``fn`` runs without the service: see ``OnUnavailable.RUN_UNPROTECTED``.
        stop_reason: Why ``stop`` is set; ``StopReason.NONE`` before that.
        lease_remaining: How much of the lease is left, never negative. Ask right before the step
            that cannot be undone.
    """

    record_id: str = ""
    attempt_number: int = 1
    fencing_token: int = 0
    downstream_key: str = ""
    unknown_attempts: int = 0
    previous_attempt: Optional[PreviousAttempt] = None
    repeated: bool = False
    on_lease_expiry: OnLeaseExpiry = OnLeaseExpiry.TAKE_OVER
    unprotected: bool = False
    stop_reason: Callable[[], StopReason] = field(default=_no_reason, compare=False, repr=False)
    lease_remaining: Callable[[], timedelta] = field(default=_endless, compare=False, repr=False)

    def downstream_key_for(self, partner: str, shape: str) -> str:
        """The downstream key for one of several partners; see :func:`downstream_key_for`."""
        return downstream_key_for(self.downstream_key, partner, shape)


@dataclass(frozen=True)
class Attempt(AttemptBase):
    """What ``fn`` of the synchronous client gets.

    ``stop`` is set when the lease is lost, ``max_duration`` is over, or the caller is gone. Look at
    it between steps, or wait on it. Begin nothing new from then on; what has been sent to a partner
    has been sent, and is unknown unless the partner says otherwise.
    """

    stop: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)


@dataclass(frozen=True)
class AsyncAttempt(AttemptBase):
    """What ``fn`` of the asyncio client gets; see :class:`Attempt`."""

    stop: asyncio.Event = field(default_factory=asyncio.Event, compare=False, repr=False)
