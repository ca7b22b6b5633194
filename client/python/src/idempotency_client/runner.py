"""The interface that application code is written against.

``Client`` and ``AsyncClient`` talk to the service; the runners of ``idempotency_client.testing``
live in memory, for the application's own tests.
"""

from __future__ import annotations

import abc
import functools
import sys
from typing import Any, Awaitable, Callable, Optional, TypeVar, Union, overload

from ._once import Once, OnceContent, answer_of
from .attempt import AsyncAttempt, Attempt
from .options import RunOptions
from .types import Key, OnLeaseExpiry, Outcome, Record, Request, RunResult, WorkResult

if sys.version_info >= (3, 10):
    from typing import Concatenate, ParamSpec
else:
    from typing_extensions import Concatenate, ParamSpec

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["AsyncRunner", "Runner"]

_DEFAULT_OPTIONS = RunOptions()


class Runner(abc.ABC):
    """Does work once. Thread-safe."""

    @abc.abstractmethod
    def run_once(
        self,
        key: Key,
        request: Request,
        *,
        on_lease_expiry: OnLeaseExpiry,
        fn: Callable[[Attempt], WorkResult],
        options: RunOptions = _DEFAULT_OPTIONS,
    ) -> RunResult:
        """Runs ``fn`` if the work of ``key`` is this call's to do, and returns what is recorded.

        ``fn`` runs on the calling thread, at most once, and not at all when the service cannot be
        reached. What it raises is in the result (``Failed.exception``), but for KeyboardInterrupt,
        SystemExit and their like: they are recorded as unknown and raised again.

        Args:
            key: Which operation this is.
            request: What is asked for; another one under the same key is ``KeyReused``.
            on_lease_expiry: Whether a crashed attempt may be done again. Depends on the partner.
            fn: The work. Gets the attempt, returns what it came to.
            options: See :class:`RunOptions`.

        Raises:
            IdempotencyError: One of its subclasses; ``work`` is ``None`` if ``fn`` did not run.
        """

    @abc.abstractmethod
    def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """What is known about a key; ``include_body``: the outcome's body, too.

        Raises:
            IdempotencyError: ``RecordNotFound`` if nothing is known.
        """

    @overload
    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[P, Key],
        payload: Callable[P, OnceContent],
        options: RunOptions = ...,
    ) -> Callable[[Callable[Concatenate[Attempt, P], WorkResult]], Callable[P, Outcome]]: ...

    @overload
    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[P, Key],
        payload: Callable[P, OnceContent],
        encode: Callable[[T], Outcome],
        decode: Callable[[Outcome], T],
        options: RunOptions = ...,
    ) -> Callable[[Callable[Concatenate[Attempt, P], Union[T, WorkResult]]], Callable[P, T]]: ...

    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[..., Key],
        payload: Callable[..., OnceContent],
        encode: Optional[Callable[[Any], Outcome]] = None,
        decode: Optional[Callable[[Outcome], Any]] = None,
        options: RunOptions = _DEFAULT_OPTIONS,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Makes a function's work be done once.

        The function gets the attempt as its first argument; callers leave it out. ``key`` and
        ``payload`` get what callers give and say which operation that is. Without ``encode`` and
        ``decode`` the function returns a ``WorkResult`` and its callers get the recorded
        ``Outcome``. With them it may return a value: ``encode`` makes the outcome of it, and
        callers get what ``decode`` makes of the outcome, now as in every replay.

        Raises (the function so made):
            InProgressError: Somebody else is at it.
            WorkFailedError: The work failed, now or before; from what the function raised.
            IdempotencyError: As ``run_once``.
        """
        once = Once(operation, on_lease_expiry, key, payload, encode, decode, options)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            once.check(function)

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                result = self.run_once(
                    once.key_of(*args, **kwargs),
                    once.request_of(*args, **kwargs),
                    on_lease_expiry=on_lease_expiry,
                    fn=lambda attempt: once.work_of(function(attempt, *args, **kwargs)),
                    options=options,
                )
                return once.value_of(answer_of(result))

            return call

        return decorate


class AsyncRunner(abc.ABC):
    """Does work once, in asyncio. For one event loop."""

    @abc.abstractmethod
    async def run_once(
        self,
        key: Key,
        request: Request,
        *,
        on_lease_expiry: OnLeaseExpiry,
        fn: Callable[[AsyncAttempt], Awaitable[WorkResult]],
        options: RunOptions = _DEFAULT_OPTIONS,
    ) -> RunResult:
        """As :meth:`Runner.run_once`, with ``fn`` a coroutine function.

        ``fn`` runs in a task of its own. A caller that is cancelled before ``fn`` gets its
        CancelledError, and nothing is done. While ``fn`` runs, and after it, a cancellation does
        not interrupt it, because the money may be moving: ``attempt.stop`` is set, and this
        returns, or raises, what the work came to. ``asyncio.wait_for`` and ``asyncio.timeout`` then
        hand that on instead of a time-out.
        """

    @abc.abstractmethod
    async def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """As :meth:`Runner.lookup`."""

    @overload
    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[P, Key],
        payload: Callable[P, OnceContent],
        options: RunOptions = ...,
    ) -> Callable[
        [Callable[Concatenate[AsyncAttempt, P], Awaitable[WorkResult]]],
        Callable[P, Awaitable[Outcome]],
    ]: ...

    @overload
    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[P, Key],
        payload: Callable[P, OnceContent],
        encode: Callable[[T], Outcome],
        decode: Callable[[Outcome], T],
        options: RunOptions = ...,
    ) -> Callable[
        [Callable[Concatenate[AsyncAttempt, P], Awaitable[Union[T, WorkResult]]]],
        Callable[P, Awaitable[T]],
    ]: ...

    def once(
        self,
        *,
        operation: str,
        on_lease_expiry: OnLeaseExpiry,
        key: Callable[..., Key],
        payload: Callable[..., OnceContent],
        encode: Optional[Callable[[Any], Outcome]] = None,
        decode: Optional[Callable[[Outcome], Any]] = None,
        options: RunOptions = _DEFAULT_OPTIONS,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """As :meth:`Runner.once`, for coroutine functions."""
        once = Once(operation, on_lease_expiry, key, payload, encode, decode, options)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            once.check(function)

            @functools.wraps(function)
            async def call(*args: Any, **kwargs: Any) -> Any:
                async def do(attempt: AsyncAttempt) -> WorkResult:
                    work: WorkResult = once.work_of(await function(attempt, *args, **kwargs))
                    return work

                result = await self.run_once(
                    once.key_of(*args, **kwargs),
                    once.request_of(*args, **kwargs),
                    on_lease_expiry=on_lease_expiry,
                    fn=do,
                    options=options,
                )
                return once.value_of(answer_of(result))

            return call

        return decorate
