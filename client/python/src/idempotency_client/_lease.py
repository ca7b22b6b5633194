"""Keeps an attempt's lease while `fn` runs, and asks `fn` to stop when it must.

Renew goes out a third of the lease after the last accepted Begin or Renew was sent. A Renew that
fails is repeated until one is accepted or refused for good, also after the lease's local end: `fn`
is told to stop by then, but as long as it has not stopped it is better that nobody else starts. It
ends with max_duration, so that a hanging `fn` does not hold the key for ever.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Callable

from ._backoff import Backoff
from ._clock import LONGEST_NAP, now
from ._failure import UNAUTHENTICATED, CallFailure, unreadable
from ._flow import Call, Flow, Sleep, call_hook
from ._plan import Caller, Config
from ._start import Lease, parse_renew
from ._wire import span_of
from .errors import ErrorKind
from .options import StopReason

# A lease that has nearly no time left is not renewed in a busy loop.
_SHORTEST_THIRD = 0.02
_SHORTEST_TRY = 0.2
_LONGEST_PAUSE = 1.0

ENDLESS = Lease(0.0, float("inf"))


class LeaseKeeper:
    """Of one attempt. Thread-safe. `on_stop` is called once, when `fn` is to be told."""

    def __init__(
        self,
        config: Config,
        caller: Caller,
        lease: Lease,
        max_duration: float,
        on_stop: Callable[[], object],
    ) -> None:
        self._config = config
        self._caller = caller
        self._stop_at = now() + max_duration
        self._on_stop = on_stop
        self._lock = threading.Lock()
        self._lease = lease
        self._reason = StopReason.NONE
        self._has_ended = False

    def stop(self, reason: StopReason) -> None:
        """Asks `fn` to stop, for the first reason only, while it runs."""
        with self._lock:
            if self._has_ended or self._reason is not StopReason.NONE:
                return
            self._reason = reason
        # Without the lock: it wakes up the application.
        self._on_stop()

    def end(self) -> None:
        """`fn` has ended: nothing is asked to stop any more."""
        with self._lock:
            self._has_ended = True

    def reason(self) -> StopReason:
        """Why `fn` was asked to stop."""
        with self._lock:
            return self._reason

    def remaining(self) -> timedelta:
        """Never negative."""
        with self._lock:
            left = self._lease.deadline - now()
        return timedelta.max if left == float("inf") else timedelta(seconds=max(0.0, left))

    def watching(self) -> Flow[None]:
        """Asks to stop when the lease has run out locally, or a time is over."""
        while True:
            instant = now()
            with self._lock:
                deadline = self._lease.deadline
            if instant >= self._stop_at:
                self.stop(StopReason.MAX_DURATION)
                return
            if instant >= deadline:
                self.stop(StopReason.LEASE_LOST)
                return
            if instant >= self._caller.deadline:
                self.stop(StopReason.DEADLINE)
                return
            # Looked at again soon: a Renew may have moved the lease's end, either way.
            yield Sleep(min(self._stop_at, deadline, self._caller.deadline, instant + LONGEST_NAP))

    def renewing(self, request: bytes) -> Flow[None]:
        """Renews until refused for good, or max_duration is over."""
        backoff = Backoff(_LONGEST_PAUSE)
        has_refreshed = False
        third = _third_of(self._lease)
        renew_at = self._lease.sent_at + third
        while True:
            yield Sleep(min(renew_at, self._stop_at))
            sent_at = now()
            if sent_at >= self._stop_at:
                return
            # A try that hangs leaves time for another one.
            timeout = max(_SHORTEST_TRY, min(third, self._config.rpc_timeout))
            reply = yield Call("Renew", request, timeout)
            answer = parse_renew(reply) if isinstance(reply, bytes) else None
            if answer is not None:
                lease = Lease(sent_at, span_of(answer.lease_remaining))
                with self._lock:
                    self._lease = lease
                third = _third_of(lease)
                renew_at = sent_at + third
                backoff.reset()
                has_refreshed = False
                continue
            failure = reply if isinstance(reply, CallFailure) else unreadable("Renew")
            if failure.kind in (ErrorKind.LEASE_LOST, ErrorKind.RECORD_NOT_FOUND):
                self.stop(StopReason.LEASE_LOST)
                return
            # NEEDS_RESOLUTION: the takeover window leaves no lease. The one that is held runs to
            # its end.
            if failure.kind in (ErrorKind.NEEDS_RESOLUTION, ErrorKind.INVALID_FIELD):
                return
            if failure.code == UNAUTHENTICATED and not has_refreshed:
                has_refreshed = True
                call_hook(self._config.hooks.refresh_credentials)
                renew_at = now()
            elif failure.must_not_retry:
                # This Renew is not repeated; the next one is due all the same.
                renew_at = now() + third
                continue
            else:
                renew_at = now() + backoff.next(failure.retry_after)
            call_hook(self._config.hooks.on_retry, "Renew", failure.error())


def _third_of(lease: Lease) -> float:
    return max(lease.remaining / 3, _SHORTEST_THIRD)
