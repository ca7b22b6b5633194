"""How a client, and a call of it, behaves. Spans are a ``timedelta`` or a number of seconds."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Callable, Mapping, Optional

from .errors import IdempotencyError
from .types import Disposition, Key, Span, WorkResult


class OnUnavailable(enum.Enum):
    """What to do when the service is away."""

    FAIL = "FAIL"
    """``fn`` does not run."""
    RUN_UNPROTECTED = "RUN_UNPROTECTED"
    """``fn`` runs without the service when ``start_timeout`` is over, if every try of this call was
    certainly without effect: it was never sent, or refused as STORE_UNAVAILABLE, OVERLOADED or
    DRAINING. Never after a lost answer. Then nothing keeps the work from being done twice."""


class StopReason(enum.Enum):
    """Why ``fn`` is asked to stop."""

    NONE = "none"
    LEASE_LOST = "lease_lost"
    """The lease is lost, or could not be renewed in time: somebody else may start the work."""
    MAX_DURATION = "max_duration"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


class CancelToken:
    """Cancels the calls that it was given to.

    ``RunOptions(cancel=token)``, then ``token.cancel()`` from any thread. For the synchronous
    client; of :class:`AsyncClient` cancel the task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._last = 0

    def cancel(self) -> None:
        """Before ``fn``: it will not run. In it: it is asked to stop. After it: nobody waits."""
        with self._lock:
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits that long, or until cancelled; returns whether it is."""
        return self._event.wait(seconds)

    def add_callback(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls `callback` once cancelled, at once if it is; returns what takes it back."""
        with self._lock:
            if not self._event.is_set():
                self._last += 1
                number = self._last
                self._callbacks[number] = callback
                return lambda: self._remove(number)
        callback()
        return lambda: None

    def _remove(self, number: int) -> None:
        with self._lock:
            self._callbacks.pop(number, None)


@dataclass(frozen=True)
class RunOptions:
    """Options of one call.

    Attributes:
        ttl: How long the record answers, from its first call: 1 min to 30 days. Default: the key's,
            else the service's 24 h. The first call's counts.
        lease_duration: How long a crashed attempt keeps others out: 1 s to 1 h, 60 s by default. It
            is renewed while ``fn`` runs, so it need not be as long as the work.
        wait_timeout: How long to wait for somebody else's outcome; 0 (default): not at all.
        labels: Words for people, such as the order's number: at most 16, names 1 to 32 and values
            up to 128 bytes. Shown by ``lookup``, never compared.
        max_duration: How long ``fn`` may run before it is asked to stop and its lease is no longer
            renewed; above 0, 15 min by default.
        start_timeout: How long the service is asked before this gives up, 30 s by default;
            ``wait_timeout`` comes on top.
        on_unavailable: What to do when the service is away.
        classify: What an exception of ``fn`` says about the work; by default, and when it raises or
            answers anything else, ``Disposition.UNKNOWN``. ``NOT_APPLIED`` only for what proves
            that nothing happened. Not asked about KeyboardInterrupt and its like.
        timeout: The caller's own patience, from the call on; ``None``: endless. What is not above 0
            has passed already. Before ``fn``: it will not run. In it: it is asked to stop. After
            it: what it came to is recorded all the same, and after a second the call raises
            ``OutcomeNotRecorded`` with ``still_recording``.
        cancel: As ``timeout``, by a token. Only of the synchronous client.
    """

    ttl: Optional[Span] = None
    lease_duration: Optional[Span] = None
    wait_timeout: Span = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    max_duration: Span = timedelta(minutes=15)
    start_timeout: Span = timedelta(seconds=30)
    on_unavailable: OnUnavailable = OnUnavailable.FAIL
    classify: Optional[Callable[[BaseException], Disposition]] = None
    timeout: Optional[Span] = None
    cancel: Optional[CancelToken] = None


@dataclass(frozen=True)
class Hooks:
    """Told what happens. Called on the caller's or the client's own threads, several at a time.

    They must not block; what they raise is logged and dropped.

    Attributes:
        on_outcome_not_recorded: The work has ended, and what it came to could not be recorded.
            Write it where somebody will look: money may have moved without a record.
        on_retry: A call (``"Begin"``, ``"Complete"``, …) failed and is repeated. For metrics.
        on_unprotected: ``fn`` is about to run without the service, because of that error.
        refresh_credentials: A call was refused as UNAUTHENTICATED and is repeated once: forget
            cached credentials.
    """

    on_outcome_not_recorded: Optional[Callable[[Key, WorkResult, IdempotencyError], object]] = None
    on_retry: Optional[Callable[[str, IdempotencyError], object]] = None
    on_unprotected: Optional[Callable[[Key, IdempotencyError], object]] = None
    refresh_credentials: Optional[Callable[[], object]] = None


@dataclass(frozen=True)
class ClientOptions:
    """Options of a client.

    Attributes:
        rpc_timeout: A single try of a call, 5 s; waits come on top.
        record_timeout: How long Complete and Fail are repeated, 5 min.
        shutdown_timeout: How long closing waits for what is still being recorded, 10 s.
        max_background_records: 10,000. Past it a caller that gives up before ``fn`` ran leaves its
            key to its lease; what ``fn`` came to is recorded however many there are.
        hooks: Told what happens.
        keepalive_interval: Between two pings, 20 s; less than the 10 s that the service allows is
            raised to that.
        keepalive_timeout: How long a ping may go unanswered, 10 s.
        max_reconnect_backoff: The longest pause between two tries to connect, 5 s.
    """

    rpc_timeout: Span = timedelta(seconds=5)
    record_timeout: Span = timedelta(minutes=5)
    shutdown_timeout: Span = timedelta(seconds=10)
    max_background_records: int = 10_000
    hooks: Hooks = field(default_factory=Hooks)
    keepalive_interval: Span = timedelta(seconds=20)
    keepalive_timeout: Span = timedelta(seconds=10)
    max_reconnect_backoff: Span = timedelta(seconds=5)
