"""One run_once of the synchronous client, from its Begin to its record."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, NamedTuple, Optional, Union

from ._clock import LONGEST_NAP, now
from ._core import Core
from ._generated import idempotency_service_pb2 as service
from ._lease import ENDLESS, LeaseKeeper
from ._plan import Caller, Plan
from ._recording import Recorded, Recording
from ._start import Granted, Start, Unprotect, closed_error
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
from ._worker import Job
from .attempt import Attempt
from .errors import Cancelled, IdempotencyError
from .options import CancelToken, StopReason
from .types import RunResult, Unprotected, WorkResult


class _Keeping(NamedTuple):
    """An `fn` that may begin, and what goes on behind its back."""

    attempt: Attempt
    keeper: LeaseKeeper
    jobs: list[Job]


class Run:
    """On its caller's thread."""

    def __init__(
        self,
        core: Core,
        plan: Plan,
        caller: Caller,
        token: CancelToken,
        fn: Callable[[Attempt], Any],
    ) -> None:
        self._core = core
        self._plan = plan
        self._caller = caller
        self._token = token
        self._fn = fn

    def execute(self) -> RunResult:
        # Of the caller's token, or of a client that closes.
        starting = CancelToken()
        if not self._core.enter(self, starting.cancel):
            raise closed_error()
        take_back = self._token.add_callback(starting.cancel)
        try:
            return self._execute(starting)
        finally:
            take_back()
            self._core.leave(self)

    def _execute(self, starting: CancelToken) -> RunResult:
        core = self._core
        start = Start(self._plan, core.config, self._caller.while_not(core.is_closing))
        keeping = None
        try:
            verdict = core.drive(start.flow(), starting)
            if isinstance(verdict, (Granted, Unprotect)):
                keeping = self._keep(verdict)
                if keeping is None:
                    start.give_back()
        finally:
            # Also of a caller that is interrupted, by Ctrl-C for instance.
            core.release(start.release())
        if isinstance(verdict, Cancelled) and not self._caller.is_gone:
            raise closed_error()
        if isinstance(verdict, IdempotencyError):
            raise verdict
        if isinstance(verdict, (Granted, Unprotect)):
            if keeping is None:
                raise closed_error()
            if isinstance(verdict, Unprotect):
                return self._run_unprotected(verdict.error, keeping)
            work, exception = self._do_work(keeping)
            return self._record(verdict.response, work, exception)
        return verdict

    def _keep(self, verdict: Union[Granted, Unprotect]) -> Optional[_Keeping]:
        """Begins to keep the lease; None: the client is closing, `fn` must not begin."""
        response = verdict.response if isinstance(verdict, Granted) else None
        lease = verdict.lease if isinstance(verdict, Granted) else ENDLESS
        stop = threading.Event()
        keeper = LeaseKeeper(
            self._core.config, self._caller, lease, self._plan.max_duration, stop.set
        )
        if not self._core.enter(self, lambda: keeper.stop(StopReason.CANCELLED)):
            return None
        jobs = [Job(keeper.watching(), lambda _: None)]
        if response is not None:
            renewing = keeper.renewing(renew_request(self._plan.begin).SerializeToString())
            jobs.append(Job(renewing, lambda _: None))
        is_kept = all(self._core.worker.spawn(job) for job in jobs)
        if not is_kept or self._core.is_closing():
            for job in jobs:
                self._core.worker.cancel(job)
            return None
        return _Keeping(Attempt(**attempt_values(response, keeper), stop=stop), keeper, jobs)

    def _do_work(self, keeping: _Keeping) -> tuple[WorkResult, Optional[BaseException]]:
        attempt, keeper, jobs = keeping
        take_back = self._token.add_callback(lambda: keeper.stop(StopReason.CANCELLED))
        try:
            return work_of_return(self._fn(attempt)), None
        except BaseException as exception:  # noqa: BLE001 - recorded, then raised by _record
            return work_of_exception(exception, self._plan.classify)
        finally:
            keeper.end()
            take_back()
            for job in jobs:
                self._core.worker.cancel(job)

    def _record(
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
        is_crash = exception is not None and not isinstance(exception, Exception)
        self._await_end(recording, is_gone=is_crash)
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

    def _await_end(self, recording: Recording, *, is_gone: bool) -> None:
        """Until it has ended, or the caller is gone and the grace is over."""
        woken = threading.Event()
        self._core.record(recording, woken.set)
        take_back = self._token.add_callback(woken.set)
        grace_end = now() + RECORD_GRACE
        try:
            while recording.result is None:
                instant = now()
                if instant >= grace_end and (is_gone or self._caller.is_gone):
                    break
                if not self._core.worker.is_alive:
                    recording.abandon()
                until = grace_end if instant < grace_end else self._caller.deadline
                woken.wait(max(0.0, min(until - instant, LONGEST_NAP)))
                woken.clear()
        finally:
            take_back()

    def _run_unprotected(self, error: IdempotencyError, keeping: _Keeping) -> Unprotected:
        self._core.count_unprotected()
        report_unprotected(self._core.config.hooks, self._plan, error)
        work, exception = self._do_work(keeping)
        if exception is not None and not isinstance(exception, Exception):
            raise exception
        return Unprotected(work, exception)
