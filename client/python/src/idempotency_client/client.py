"""The synchronous client of the idempotency service: a Runner over gRPC.

One ``Client`` for the process. It has one thread of its own, which renews leases and records what
the work came to; everything else happens on the caller's thread.
"""

from __future__ import annotations

import functools
import os
import threading
from types import TracebackType
from typing import Callable, Optional

from ._core import Core
from ._link import INSECURE, Credentials, Insecure, check_endpoint
from ._lookup import lookup_flow
from ._plan import Caller, caller_timeout, config_of, lookup_request, plan_of
from ._run import Run
from ._start import closed_error
from .attempt import Attempt
from .errors import IdempotencyError, Internal, Unavailable
from .options import CancelToken, ClientOptions, RunOptions
from .runner import Runner
from .types import Key, OnLeaseExpiry, Record, Request, RunResult, WorkResult

__all__ = ["INSECURE", "Client", "Credentials", "Insecure"]

_DEFAULT_OPTIONS = ClientOptions()
_DEFAULT_RUN_OPTIONS = RunOptions()


class Client(Runner):
    """Talks to the service. Thread-safe.

    Nothing is connected, and no thread begins, before the first call: a client may be made before a
    server forks its workers, and is used in them. One that was used before a fork refuses to work
    in the child, since gRPC does not survive it. Use it as a context manager, or ``close`` it; what
    a program leaves open is closed at its end.

    Args:
        target: A gRPC name: ``dns:///idempotency.payments.svc:50051``.
        credentials: ``grpc.ssl_channel_credentials(…)``, composed with call credentials where the
            service asks for a token; ``INSECURE`` only on a network that is trusted.
        options: See :class:`ClientOptions`.

    Raises:
        InvalidField: An argument is wrong.
    """

    def __init__(
        self, target: str, credentials: Credentials, options: ClientOptions = _DEFAULT_OPTIONS
    ) -> None:
        check_endpoint(target, credentials)
        self._config = config_of(options)
        self._make_core = functools.partial(Core, target, credentials, self._config)
        self._lock = threading.Lock()
        self._core: Optional[Core] = None
        self._is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def unprotected_runs(self) -> int:
        """How often ``fn`` ran without the service since this client was made."""
        core = self._core
        return 0 if core is None else core.unprotected_runs

    def close(self) -> None:
        """Refuses further calls and waits up to ``shutdown_timeout`` for those under way.

        Each ``fn`` that runs is asked to stop; its lease is renewed on, and what it comes to is
        recorded. What is not recorded by then is given up, and ``on_outcome_not_recorded`` is told.
        """
        with self._lock:
            self._is_closed = True
            core = self._core
        if core is not None and core.pid == os.getpid():
            core.close()

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
        timeout = caller_timeout(options)
        token = CancelToken() if options.cancel is None else options.cancel
        return Run(
            self._used_core(), plan, Caller(timeout, token.is_cancelled), token, fn
        ).execute()

    def lookup(self, key: Key, *, include_body: bool = False) -> Record:
        """See :meth:`Runner.lookup`."""
        request = lookup_request(key, include_body)
        found = self._used_core().drive(lookup_flow(self._config, request), CancelToken())
        if isinstance(found, IdempotencyError):
            raise found
        return found

    def _used_core(self) -> Core:
        if self._is_closed:
            raise closed_error()
        core = self._core
        if core is None:
            with self._lock:
                if self._is_closed:
                    raise closed_error()
                if self._core is None:
                    try:
                        self._core = self._make_core()
                    except RuntimeError:
                        # At the limit of threads, or in a program that is ending.
                        raise Unavailable("the client could not start its thread") from None
                core = self._core
        # Without the lock: in a child it may be held by a thread that was not forked along.
        if core.pid != os.getpid():
            raise Internal("the client was used before the fork; make one in each process")
        return core
