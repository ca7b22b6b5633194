"""One run_once of the asyncio client, from its Begin to its record."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any, Awaitable, Callable, Optional

from ._aio_core import AsyncCore
from ._clock import LONGEST_NAP, now
from ._flow import Flow, logger
from ._generated import idempotency_service_pb2 as service
from ._lease import ENDLESS, LeaseKeeper
from ._plan import Caller, Plan
from ._recording import Recorded, Recording
from ._start import Granted, Lease, Start, Unprotect, closed_error
from ._wire import record_request, renew_request
from ._work import (
    RECORD_GRACE,
    attempt_values,
    report_lost,
    report_unprotected,
    result_of,
    still_recording,
    work_of_exception,
    work_of_return,
)
from .attempt import AsyncAttempt
from .errors import Cancelled, IdempotencyError
from .options import StopReason
from .types import RunResult, Unprotected, WorkResult


class AsyncRun:
    """In its caller's task."""

    def __init__(
        self,
        core: AsyncCore,
        plan: Plan,
        caller: Caller,
        fn: Callable[[AsyncAttempt], Awaitable[WorkResult]],
    ) -> None:
        self._core = core
        self._plan = plan
        self._caller = caller
        self._fn = fn
        self._is_cancelled = False

    async def execute(self) -> RunResult:
        if not self._core.enter(self, lambda: None):
            raise closed_error()
        try:
            return await self._execute()
        finally:
            self._core.leave(self)

    async def _execute(self) -> RunResult:
        core = self._core
        start = Start(self._plan, core.config, self._caller.while_not(core.is_closing))
        try:
            verdict = await core.drive(start.flow())
            # Nothing can come between this and `fn`: the loop is ours.
            if isinstance(verdict, Granted) and core.is_closing():
                start.give_back()
        finally:
            # Also of a caller that is cancelled.
            core.release(start.release())
        if isinstance(verdict, Cancelled):
            raise closed_error()
        if isinstance(verdict, IdempotencyError):
            raise verdict
        if isinstance(verdict, (Granted, Unprotect)) and core.is_closing():
            raise closed_error()
        if isinstance(verdict, Unprotect):
            return await self._run_unprotected(verdict.error)
        if isinstance(verdict, Granted):
            work, exception = await self._do_work(verdict.response, verdict.lease)
            return await self._record(verdict.response, work, exception)
        return verdict

    async def _do_work(
        self, response: Optional[service.BeginResponse], lease: Lease
    ) -> tuple[WorkResult, Optional[BaseException]]:
        stop = asyncio.Event()
        keeper = LeaseKeeper(
            self._core.config, self._caller, lease, self._plan.max_duration, stop.set
        )
        self._core.enter(self, lambda: keeper.stop(StopReason.CANCELLED))
        attempt = AsyncAttempt(**attempt_values(response, keeper), stop=stop)
        keeping = [self._keep(keeper.watching())]
        if response is not None:
            renew = renew_request(self._plan.begin).SerializeToString()
            keeping.append(self._keep(keeper.renewing(renew)))
        # A task of its own: a cancellation must not interrupt it, the money may be moving.
        working = self._core.loop.create_task(self._work(attempt))
        try:
            while not working.done():
                await self._shielded(working, lambda: keeper.stop(StopReason.CANCELLED))
            exception = None if working.cancelled() else working.exception()
            if working.cancelled():
                # Before its first step: `fn` did not run, but nobody can tell that from here.
                exception = asyncio.CancelledError()
            if exception is not None:
                return work_of_exception(exception, self._plan.classify)
            work: tuple[WorkResult, Optional[BaseException]] = working.result()
            return work
        finally:
            keeper.end()
            for task in keeping:
                task.cancel()

    async def _work(self, attempt: AsyncAttempt) -> tuple[WorkResult, Optional[BaseException]]:
        try:
            returned: Any = self._fn(attempt)
            if inspect.isawaitable(returned):
                returned = await returned
            return work_of_return(returned), None
        except BaseException as exception:  # noqa: BLE001 - recorded, then raised by _record
            return work_of_exception(exception, self._plan.classify)

    def _keep(self, flow: Flow[None]) -> asyncio.Task[None]:
        return self._core.loop.create_task(self._drive_quietly(flow))

    async def _drive_quietly(self, flow: Flow[None]) -> None:
        try:
            await self._core.drive(flow)
        except Exception as error:  # noqa: BLE001 - the work goes on without
            # No traceback: its words may be the application's, and may hold anything.
            logger.error("a step of the idempotency client failed: %s", type(error).__name__)

    async def _shielded(
        self,
        task: asyncio.Task[Any],
        on_cancel: Callable[[], object],
        timeout: Optional[float] = None,
    ) -> None:
        """Waits for `task`; a cancellation of the caller is noted, and does not reach it."""
        try:
            await asyncio.wait([task], timeout=timeout)
        except asyncio.CancelledError:
            self._is_cancelled = True
            on_cancel()

    async def _record(
        self,
        response: service.BeginResponse,
        work: WorkResult,
        exception: Optional[BaseException],
    ) -> RunResult:
        config, plan = self._core.config, self._plan
        recording = Recording(
            config,
            record_request(plan.begin, work),
            on_lost=functools.partial(report_lost, config.hooks, plan.key, work, exception),
        )
        is_crash = self._is_crash(exception)
        await self._await_end(recording, is_gone=is_crash)
        if is_crash:
            assert exception is not None  # noqa: S101 - for the type checker
            raise exception
        result = recording.result
        if isinstance(result, Recorded):
            return result_of(
                work, exception, result, response.record_id, response.started.attempt_number
            )
        if result is not None:
            raise result from exception
        raise still_recording(work, exception) from exception

    def _is_crash(self, exception: Optional[BaseException]) -> bool:
        """Whether it is to be raised again: KeyboardInterrupt and its like.

        A CancelledError only if the caller was cancelled, too, as by a loop that ends: one that
        `fn` alone came to, by awaiting something cancelled, is a way for work to fail.
        """
        if isinstance(exception, asyncio.CancelledError):
            return self._is_cancelled
        return exception is not None and not isinstance(exception, Exception)

    async def _await_end(self, recording: Recording, *, is_gone: bool) -> None:
        """Until it has ended, or the caller is gone and the grace is over."""
        ended = asyncio.Event()
        recording.on_end = ended.set
        self._core.record(recording)
        waiting = self._core.loop.create_task(ended.wait())
        grace_end = now() + RECORD_GRACE
        while recording.result is None:
            instant = now()
            if instant >= grace_end and (is_gone or self._is_cancelled or self._caller.is_gone):
                break
            until = grace_end if instant < grace_end else self._caller.deadline
            nap = max(0.0, min(until - instant, LONGEST_NAP))
            await self._shielded(waiting, lambda: None, nap)
        waiting.cancel()

    async def _run_unprotected(self, error: IdempotencyError) -> Unprotected:
        self._core.unprotected_runs += 1
        report_unprotected(self._core.config.hooks, self._plan, error)
        work, exception = await self._do_work(None, ENDLESS)
        if exception is not None and self._is_crash(exception):
            raise exception
        return Unprotected(work, exception)
