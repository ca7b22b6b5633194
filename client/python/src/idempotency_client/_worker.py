"""The synchronous client's one background thread: it drives renewals and records.

Calls go out by gRPC's futures, so that none of them holds the thread up. A flow's code runs on the
thread alone, one flow at a time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from typing import Any, Callable, Optional

from ._clock import LONGEST_NAP, now
from ._failure import UNAVAILABLE, CallFailure
from ._flow import Call, Flow, Reply, Settle, logger

_MOST_STALE = 256
# After an error of the loop itself, such as one of memory, so that it does not spin.
_PAUSE_AFTER_ERROR = 0.05


class Job:
    """One flow under way. `on_end` gets what it came to, on the thread, unless it is cancelled."""

    def __init__(self, flow: Flow[Any], on_end: Callable[[Any], object]) -> None:
        self.flow = flow
        self.on_end = on_end
        self.is_cancelled = False
        self.cancel_call: Optional[Callable[[], object]] = None

    def cancel(self) -> None:
        """No step of it begins any more; a call under way is cancelled."""
        self.is_cancelled = True
        cancel_call = self.cancel_call
        if cancel_call is not None:
            cancel_call()


class Worker:
    """`send` begins a call and returns what cancels it; it tells the second argument its reply."""

    def __init__(
        self, send: Callable[[Call, Callable[[Reply], None]], Callable[[], object]]
    ) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._ready: deque[tuple[Job, Reply]] = deque()
        self._timers: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._stale = 0
        self._is_stopped = False
        self._thread = threading.Thread(target=self._loop, name="idempotency-client", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether a step may still be done."""
        return self._thread.is_alive()

    def spawn(self, job: Job) -> bool:
        """Begins a flow; False after stop: it will not run."""
        return self._post(job, None)

    def cancel(self, job: Job) -> None:
        """No step of it begins any more; a call under way is cancelled. From any thread."""
        job.cancel()
        with self._changed:
            self._stale += 1
            # Most calls end long before their first Renew is due: do not keep them until then.
            if self._stale > _MOST_STALE and 2 * self._stale > len(self._timers):
                self._timers = [timer for timer in self._timers if not timer[2].is_cancelled]
                heapq.heapify(self._timers)
                self._stale = 0

    def stop(self, timeout: float) -> None:
        """Begins no further step; waits that long for the one that runs."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _post(self, job: Job, reply: Reply) -> bool:
        with self._changed:
            if self._is_stopped:
                return False
            self._ready.append((job, reply))
            self._changed.notify()
            return True

    def _teller(self, job: Job) -> Callable[[Reply], None]:
        def tell(reply: Reply) -> None:
            self._post(job, reply)

        return tell

    def _loop(self) -> None:
        # Nothing may end it but stop: all leases and records of the process hang on this thread.
        while True:
            try:
                if not self._next():
                    return
            except BaseException as error:  # noqa: BLE001 - as said
                _log("the idempotency client's thread", error)
                time.sleep(_PAUSE_AFTER_ERROR)

    def _next(self) -> bool:
        # Of its own, so that the last job is not held, and its client with it, until the next one.
        taken = self._take()
        if taken is None:
            return False
        self._step(*taken)
        return True

    def _take(self) -> Optional[tuple[Job, Reply]]:
        with self._changed:
            while not self._is_stopped:
                if self._timers and self._timers[0][0] <= now():
                    return heapq.heappop(self._timers)[2], None
                if self._ready:
                    return self._ready.popleft()
                nap = None
                if self._timers:
                    nap = min(max(self._timers[0][0] - now(), 0.0), LONGEST_NAP)
                self._changed.wait(nap)
            return None

    def _step(self, job: Job, reply: Reply) -> None:
        if job.is_cancelled:
            return
        job.cancel_call = None
        try:
            step = job.flow.send(reply)
        except StopIteration as end:
            self._end(job, end.value)
            return
        except BaseException as error:  # noqa: BLE001 - one flow must not end the others
            _log("a step of the idempotency client", error)
            self._end(job, error)
            return
        if isinstance(step, Call):
            try:
                job.cancel_call = self._send(step, self._teller(job))
            except BaseException as error:  # noqa: BLE001 - it is repeated as any try that failed
                _log("a call of the idempotency client", error)
                self._post(job, CallFailure(UNAVAILABLE, "the call could not be made"))
            if job.is_cancelled:
                job.cancel()
            return
        until = now() if isinstance(step, Settle) else step.until
        with self._changed:
            heapq.heappush(self._timers, (until, next(self._numbers), job))

    def _end(self, job: Job, value: Any) -> None:
        try:
            job.on_end(value)
        except BaseException as error:  # noqa: BLE001 - as above
            _log("the end of a step of the idempotency client", error)


def _log(what: str, error: BaseException) -> None:
    # No traceback: its words may be the application's, and may hold anything.
    logger.error("%s failed: %s", what, type(error).__name__)
