"""The asyncio client of the idempotency service: an AsyncRunner over grpc.aio."""

from __future__ import annotations

import asyncio
import functools
import os
from types import TracebackType
from typing import Awaitable, Callable, Optional

from ._aio_core import AsyncCore
from ._aio_run import AsyncRun
from ._link import Credentials, check_endpoint
from ._lookup import lookup_flow
from ._plan import Caller, caller_timeout, config_of, lookup_request, plan_of
from ._start import closed_error
from .attempt import AsyncAttempt
from .errors import IdempotencyError, Internal
from .options import ClientOptions, RunOptions
from .runner import AsyncRunner
from .types import Key, OnLeaseExpiry, Record, Request, RunResult, WorkResult

__all__ = ["AsyncClient"]

_DEFAULT_OPTIONS = ClientOptions()
_DEFAULT_RUN_OPTIONS = RunOptions()


class AsyncClient(AsyncRunner):
    """Talks to the service, in asyncio. For one event loop: the one of its first call.

    Nothing is connected before the first call. Use it as an asynchronous context manager, or
    ``close``
    it: what is still being recorded when the loop ends is lost, and the hook is told.

    Args and errors: as of :class:`Client`.
    """

    def __init__(
        self, target: str, credentials: Credentials, options: ClientOptions = _DEFAULT_OPTIONS
    ) -> None:
        check_endpoint(target, credentials)
        self._config = config_of(options)
        self._make_core = functools.partial(AsyncCore, target, credentials, self._config)
        self._core: Optional[AsyncCore] = None
        self._is_closed = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    @property
    def unprotected_runs(self) -> int:
        """How often ``fn`` ran without the service since this client was made."""
        return 0 if self._core is None else self._core.unprotected_runs

    async def close(self) -> None:
        """As :meth:`Client.close`."""
        self._is_closed = True
        if self._core is not None:
            await self._core.close()

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
        return await AsyncRun(self._used_core(), plan, caller, fn).execute()

    async def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """See :meth:`AsyncRunner.lookup`."""
        request = lookup_request(key, include_body)
        found = await self._used_core().drive(lookup_flow(self._config, request))
        if isinstance(found, IdempotencyError):
            raise found
        return found

    def _used_core(self) -> AsyncCore:
        if self._is_closed:
            raise closed_error()
        if self._core is None:
            self._core = self._make_core()
        if self._core.pid != os.getpid():
            raise Internal("the client was used before the fork; make one in each process")
        if self._core.loop is not asyncio.get_running_loop():
            raise Internal("the client was used in another event loop; make one in each")
        return self._core
