"""What the calls of one asyncio client share: its channels, its loop, its records."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Callable, Optional

from ._aio_link import AsyncLink
from ._clock import LONGEST_NAP, now
from ._flow import Call, Flow, Reply, Settle, T, logger
from ._link import Credentials
from ._plan import Config
from ._recording import Recording


class AsyncCore:
    """Made inside its loop."""

    def __init__(self, target: str, credentials: Credentials, config: Config) -> None:
        self.config = config
        self.pid = os.getpid()
        self.loop = asyncio.get_running_loop()
        self.unprotected_runs = 0
        self._calls = AsyncLink(target, credentials, config.channel_arguments)
        # For Begins that wait: they must never hold up a Complete.
        self._waits = AsyncLink(target, credentials, config.channel_arguments)
        self._recordings: dict[asyncio.Task[None], Recording] = {}
        # The calls under way, and what tells each that the client is closing.
        self._runs: dict[object, Callable[[], object]] = {}
        self._changed = asyncio.Event()
        self._is_closing = False
        self._is_closed = False

    async def close(self) -> None:
        give_up_at = now() + self.config.shutdown_timeout
        self._is_closing = True
        for tell in list(self._runs.values()):
            tell()
        for link in (self._calls, self._waits):
            link.cancel_begins()
        # Leases are renewed on, and what `fn` comes to is recorded.
        while (self._runs or self._recordings) and now() < give_up_at:
            self._changed.clear()
            nap = max(0.0, min(give_up_at - now(), LONGEST_NAP))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), nap)
        self._is_closed = True
        for task in list(self._recordings):
            # Its recording is abandoned on the way out.
            task.cancel()
        if self._recordings:
            await asyncio.wait(list(self._recordings))
        await self._calls.close()
        await self._waits.close()

    def is_closing(self) -> bool:
        """No `fn` begins any more."""
        return self._is_closing

    def enter(self, run: object, on_close: Callable[[], object]) -> bool:
        """Before a run begins, and again before its `fn` does; False: the client is closing."""
        if self._is_closing:
            return False
        self._runs[run] = on_close
        return True

    def leave(self, run: object) -> None:
        """The run has ended."""
        self._runs.pop(run, None)
        self._changed.set()

    async def drive(self, flow: Flow[T]) -> T:
        """Does a flow's steps."""
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Call):
                reply = await self._link(waits=step.waits).call(step)
            elif isinstance(step, Settle):
                reply = await self._link(waits=step.waits).settle(step.until)
            else:
                reply = None
                while now() < step.until:  # noqa: ASYNC110 - nobody else knows the time
                    await asyncio.sleep(max(0.0, min(step.until - now(), LONGEST_NAP)))

    def _link(self, *, waits: bool) -> AsyncLink:
        return self._waits if waits else self._calls

    def release(self, recording: Optional[Recording]) -> None:
        """Records in the background what a caller that gave up leaves behind, if anything."""
        if recording is not None and len(self._recordings) < self.config.max_background_records:
            self.record(recording)

    def record(self, recording: Recording) -> None:
        """Records in the background, in a task that no caller's cancellation reaches."""
        if self._is_closed:
            recording.abandon()
            return
        task = self.loop.create_task(self._record(recording))
        self._recordings[task] = recording
        task.add_done_callback(self._on_recorded)

    async def _record(self, recording: Recording) -> None:
        try:
            recording.end(await self.drive(recording.flow()))
        except Exception as error:  # noqa: BLE001 - the work is done, and is told to be lost
            # No traceback: its words may be the application's, and may hold anything.
            logger.error("a step of the idempotency client failed: %s", type(error).__name__)
            recording.end(error)

    def _on_recorded(self, task: asyncio.Task[None]) -> None:
        recording = self._recordings.pop(task)
        self._changed.set()
        # Cancelled by close, or by a loop that ends, perhaps before its first step.
        recording.abandon()
