"""Runners in memory, for tests of code that uses ``run_once``. No server, no sleeping.

    runner = FakeRunner()
    service = PaymentService(runner, partner)
    runner.lose_next_record()                 # the work is done, the record is lost
    with pytest.raises(OutcomeNotRecorded):
        service.pay(order)
    service.pay(order)
    assert partner.balance == 50              # the second attempt asked before paying

They answer as the service does: replays, key reuse, attempts that ended unknown, HOLD, waiting for
another thread's or task's outcome, not-applied that frees the key. They have no leases that run out
and nothing expires; for the real thing run ``idempotencyd dev --ephemeral`` and use the client.
What a result is made of is the client's own code.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any, Awaitable, Callable, Optional

from ._check import invalid
from ._clock import now
from ._failure import AWAY_REASONS
from ._fake import Entry, FakeState, Running
from ._plan import Caller, Plan, caller_timeout, check_key, plan_of
from ._start import gone_error
from ._work import report_unprotected, work_of_exception, work_of_return
from .attempt import AsyncAttempt, Attempt
from .errors import ErrorKind, IdempotencyError
from .options import CancelToken, Hooks, RunOptions, StopReason
from .runner import AsyncRunner, Runner
from .types import Key, OnLeaseExpiry, Record, Request, RunResult, Unprotected, WorkResult

__all__ = ["AsyncFakeRunner", "FakeRunner"]

_DEFAULT_HOOKS = Hooks()
_DEFAULT_RUN_OPTIONS = RunOptions()


class _Fake:
    def __init__(self, hooks: Hooks = _DEFAULT_HOOKS) -> None:
        self._lock = threading.RLock()
        self._state = FakeState(hooks)
        self._unprotected_runs = 0

    @property
    def unprotected_runs(self) -> int:
        """As of the client."""
        return self._unprotected_runs

    def _take_unprotect(self, plan: Plan) -> bool:
        """Whether this call runs unprotected; then it is counted and told, as by the client."""
        with self._lock:
            error = self._state.next_start_error
            if error is None or not plan.may_run_unprotected or not _says_nothing_done(error):
                return False
            self._state.next_start_error = None
            self._unprotected_runs += 1
        report_unprotected(self._state.hooks, plan, error)
        return True

    def fail_next_start(self, error: IdempotencyError) -> None:
        """The next ``run_once`` raises this before ``fn`` runs: the service is away, say.

        With ``OnUnavailable.RUN_UNPROTECTED`` an error that says that nothing was done
        (``Unavailable`` without a reason, or with STORE_UNAVAILABLE, OVERLOADED or DRAINING) lets
        ``fn`` run unprotected.
        """
        if not isinstance(error, IdempotencyError):
            raise invalid("error", "must be an IdempotencyError")
        with self._lock:
            self._state.next_start_error = error

    def lose_next_record(self) -> None:
        """What the next ``fn`` comes to is not recorded: ``OutcomeNotRecorded``, ended unknown."""
        with self._lock:
            self._state.loses_next_record = True

    def crash_attempt(self, key: Key, request: Request, on_lease_expiry: OnLeaseExpiry) -> None:
        """As if a process had died in ``fn``: the key has an attempt that ended unknown."""
        plan_of(key, request, on_lease_expiry, id, _DEFAULT_RUN_OPTIONS, takes_coroutines=True)
        with self._lock:
            self._state.crash(key, request, on_lease_expiry)

    def _lookup(self, key: Key, *, include_body: bool) -> Record:
        check_key(key)
        with self._lock:
            return self._state.record(key, include_body=include_body)


def _says_nothing_done(error: IdempotencyError) -> bool:
    return error.kind is ErrorKind.UNAVAILABLE and error.reason in ("", *AWAY_REASONS)


def _is_crash(exception: Optional[BaseException]) -> bool:
    return exception is not None and not isinstance(exception, (Exception, asyncio.CancelledError))


def _values_of(running: Optional[Running]) -> dict[str, Any]:
    return {"attempt_number": 0, "unprotected": True} if running is None else running.values


class FakeRunner(_Fake, Runner):
    """A :class:`Runner` in memory. Thread-safe. ``hooks``: told as those of the client are."""

    def __init__(self, hooks: Hooks = _DEFAULT_HOOKS) -> None:
        super().__init__(hooks)
        self._changed = threading.Condition(self._lock)

    def run_once(
        self,
        key: Key,
        request: Request,
        *,
        on_lease_expiry: OnLeaseExpiry,
        fn: Callable[[Attempt], WorkResult],
        options: RunOptions = _DEFAULT_RUN_OPTIONS,
    ) -> RunResult:
        """See :meth:`Runner.run_once`."""
        plan = plan_of(key, request, on_lease_expiry, fn, options, takes_coroutines=False)
        token = CancelToken() if options.cancel is None else options.cancel
        caller = Caller(caller_timeout(options), token.is_cancelled)
        if caller.is_gone:
            raise gone_error(caller.why_gone())
        if self._take_unprotect(plan):
            return self._work(plan, token, fn, None)
        with self._changed:
            entry = self._state.entry_of(key, request)
            self._changed.wait_for(lambda: not entry.is_running, plan.wait_timeout)
            answer = self._state.answer_without_work(entry)
            if answer is not None:
                return answer
            running = self._state.start(entry, on_lease_expiry, options.labels)
        return self._work(plan, token, fn, running)

    def _work(
        self,
        plan: Plan,
        token: CancelToken,
        fn: Callable[[Attempt], Any],
        running: Optional[Running],
    ) -> RunResult:
        stop = threading.Event()
        take_back = token.add_callback(stop.set)
        attempt = Attempt(
            **_values_of(running),
            stop=stop,
            stop_reason=lambda: StopReason.CANCELLED if stop.is_set() else StopReason.NONE,
        )
        exception: Optional[BaseException] = None
        try:
            work = work_of_return(fn(attempt))
        except BaseException as error:  # noqa: BLE001 - recorded, then raised
            work, exception = work_of_exception(error, plan.classify)
        take_back()
        if running is None:
            if exception is not None and _is_crash(exception):
                raise exception
            return Unprotected(work, exception)
        with self._changed:
            try:
                result = self._state.end(plan.key, running, work, exception)
            finally:
                self._changed.notify_all()
        if exception is not None and _is_crash(exception):
            raise exception
        return result

    def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """See :meth:`Runner.lookup`."""
        return self._lookup(key, include_body=include_body)


class AsyncFakeRunner(_Fake, AsyncRunner):
    """An :class:`AsyncRunner` in memory. For one event loop."""

    def __init__(self, hooks: Hooks = _DEFAULT_HOOKS) -> None:
        super().__init__(hooks)
        self._waiting: set[asyncio.Future[None]] = set()

    async def run_once(
        self,
        key: Key,
        request: Request,
        *,
        on_lease_expiry: OnLeaseExpiry,
        fn: Callable[[AsyncAttempt], Awaitable[WorkResult]],
        options: RunOptions = _DEFAULT_RUN_OPTIONS,
    ) -> RunResult:
        """See :meth:`AsyncRunner.run_once`."""
        plan = plan_of(key, request, on_lease_expiry, fn, options, takes_coroutines=True)
        caller = Caller(caller_timeout(options))
        if caller.is_gone:
            raise gone_error(caller.why_gone())
        if self._take_unprotect(plan):
            return await self._work(plan, fn, None)
        entry = self._state.entry_of(key, request)
        await self._await_end(entry, now() + plan.wait_timeout)
        answer = self._state.answer_without_work(entry)
        if answer is not None:
            return answer
        running = self._state.start(entry, on_lease_expiry, options.labels)
        return await self._work(plan, fn, running)

    async def _await_end(self, entry: Entry, until: float) -> None:
        while entry.is_running and now() < until:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            await asyncio.wait([changed], timeout=max(0.0, until - now()))
            self._waiting.discard(changed)

    async def _work(
        self, plan: Plan, fn: Callable[[AsyncAttempt], Any], running: Optional[Running]
    ) -> RunResult:
        exception: Optional[BaseException] = None
        stop = asyncio.Event()

        async def call() -> WorkResult:
            returned = fn(attempt)
            return work_of_return(await returned if inspect.isawaitable(returned) else returned)

        attempt = AsyncAttempt(
            **_values_of(running),
            stop=stop,
            stop_reason=lambda: StopReason.CANCELLED if stop.is_set() else StopReason.NONE,
        )
        working = asyncio.ensure_future(_caught(call()))
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                # As the client: `fn` is told, and not interrupted.
                stop.set()
        returned = asyncio.CancelledError() if working.cancelled() else working.result()
        if isinstance(returned, BaseException):
            work, exception = work_of_exception(returned, plan.classify)
        else:
            work = returned
        if running is None:
            if exception is not None and _is_crash(exception):
                raise exception
            return Unprotected(work, exception)
        try:
            result = self._state.end(plan.key, running, work, exception)
        finally:
            for changed in self._waiting:
                if not changed.done():
                    changed.set_result(None)
        if exception is not None and _is_crash(exception):
            raise exception
        return result

    async def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """See :meth:`AsyncRunner.lookup`."""
        return self._lookup(key, include_body=include_body)


async def _caught(coroutine: Awaitable[WorkResult]) -> Any:
    try:
        return await coroutine
    except BaseException as error:  # noqa: BLE001 - recorded, then raised
        return error
