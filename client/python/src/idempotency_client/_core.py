"""What the calls of one synchronous client share: its channels, its thread, its records."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Callable, Optional

from ._clock import LONGEST_NAP, now
from ._flow import Call, Flow, Reply, Settle, T
from ._link import Credentials, Link
from ._plan import Config
from ._recording import Recording
from ._worker import Job, Worker
from .options import CancelToken

_WORKER_JOIN = 2.0


class Core:
    """What the calls of one Client share."""

    def __init__(self, target: str, credentials: Credentials, config: Config) -> None:
        self.config = config
        self.pid = os.getpid()
        self.unprotected_runs = 0
        self._calls = Link(target, credentials, config.channel_arguments)
        # For Begins that wait: they must never hold up a Complete.
        self._waits = Link(target, credentials, config.channel_arguments)
        self._changed = threading.Condition()
        self._recordings: dict[Recording, Job] = {}
        # The calls under way, and what tells each that the client is closing.
        self._runs: dict[object, Callable[[], object]] = {}
        self._is_closing = False
        self.worker = Worker(self._calls.send)
        # A client that was dropped leaves no thread behind. What is being recorded keeps it alive.
        weakref.finalize(self, self.worker.stop, 0).atexit = False
        _open_cores.add(self)

    def close(self) -> None:
        give_up_at = now() + self.config.shutdown_timeout
        with self._changed:
            self._is_closing = True
            tellers = list(self._runs.values())
        for tell in tellers:
            tell()
        # The worker goes on: leases are renewed, and what `fn` comes to is recorded.
        with self._changed:
            while (self._runs or self._recordings) and now() < give_up_at:
                self._changed.wait(max(0.0, min(give_up_at - now(), LONGEST_NAP)))
        self.worker.stop(_WORKER_JOIN)
        with self._changed:
            left = list(self._recordings)
        for recording in left:
            recording.abandon()
        self._calls.close()
        self._waits.close()
        _open_cores.discard(self)

    def is_closing(self) -> bool:
        """No `fn` begins any more."""
        return self._is_closing

    def enter(self, run: object, on_close: Callable[[], object]) -> bool:
        """Before a run begins, and again before its `fn` does; False: the client is closing."""
        with self._changed:
            if self._is_closing:
                return False
            self._runs[run] = on_close
            return True

    def leave(self, run: object) -> None:
        """The run has ended."""
        with self._changed:
            self._runs.pop(run, None)
            self._changed.notify_all()

    def drive(self, flow: Flow[T], token: CancelToken) -> T:
        """Does a flow's steps on this thread."""
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Call):
                reply = self._link(waits=step.waits).call(step, token)
            elif isinstance(step, Settle):
                reply = self._link(waits=step.waits).settle(step.until, token)
            else:
                reply = None
                while now() < step.until and not token.is_cancelled():
                    token.wait(max(0.0, min(step.until - now(), LONGEST_NAP)))

    def _link(self, *, waits: bool) -> Link:
        return self._waits if waits else self._calls

    def count_unprotected(self) -> None:
        with self._changed:
            self.unprotected_runs += 1

    def release(self, recording: Optional[Recording]) -> None:
        """Records in the background what a caller that gave up leaves behind, if anything."""
        if recording is not None and len(self._recordings) < self.config.max_background_records:
            self.record(recording)

    def record(self, recording: Recording, on_end: Callable[[], object] = lambda: None) -> None:
        """Records in the background; `on_end` is called when it has ended."""

        def ended() -> None:
            on_end()
            with self._changed:
                self._recordings.pop(recording, None)
                self._changed.notify_all()

        recording.on_end = ended
        job = Job(recording.flow(), recording.end)
        with self._changed:
            self._recordings[recording] = job
        if not self.worker.spawn(job):
            recording.abandon()


# Weak: a client that is dropped without being closed must not live for ever.
_open_cores: weakref.WeakSet[Core] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for core in list(_open_cores):
        if core.pid == os.getpid():
            core.close()
