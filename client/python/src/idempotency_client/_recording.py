"""Complete and Fail until it is known whether they are recorded.

Detached from the caller, who may wait for the end or leave. Every repeat has identical bytes,
unless the service finds the body too large: then the outcome is recorded again by its size and
digest.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Callable, Optional, Union

from google.protobuf.message import DecodeError, EncodeError

from ._backoff import Backoff
from ._clock import now
from ._failure import UNAUTHENTICATED, CallFailure, unreadable
from ._flow import Call, Flow, Sleep, call_hook
from ._generated import idempotency_service_pb2 as service
from ._plan import Config
from ._wire import RecordRequest, instant_of, omit_body
from .errors import ErrorKind, IdempotencyError, OutcomeNotRecorded

# When a release that came before its Begin is tried again. Guessed: a Begin takes milliseconds, and
# one that is still queued when its caller has left is dropped.
_LATE_LOOK = 2.0
# A try is given at least this long, however little of record_timeout is left.
_SHORTEST_TRY = 0.1


@dataclass(frozen=True)
class Recorded:
    """The service has it."""

    finish_time: datetime
    without_body: bool


class Recording:
    """One Complete or Fail.

    `may_be_early`: the attempt's Begin may still be on its way, perhaps through another replica, so
    that a refusal because the service does not know the attempt is looked at once more. `on_lost`
    is told once if it ends unrecorded, before `on_end` is called, which always is, once.
    """

    def __init__(
        self,
        config: Config,
        request: RecordRequest,
        *,
        may_be_early: bool = False,
        on_lost: Optional[Callable[[IdempotencyError], None]] = None,
    ) -> None:
        self._config = config
        self._request = request
        self._may_be_early = may_be_early
        self._on_lost = on_lost
        self.on_end: Callable[[], object] = lambda: None
        self.result: Union[Recorded, IdempotencyError, None] = None
        self._rpc = "Complete" if isinstance(request, service.CompleteRequest) else "Fail"
        self._has_omitted = False
        self._lock = threading.Lock()
        self._is_ending = False
        try:
            self._bytes = request.SerializeToString(deterministic=True)
        except (EncodeError, ValueError, MemoryError):
            # Protobuf itself has an end at 2 GiB. The work is done, and that must not be lost.
            self._omit_body()

    @property
    def is_release(self) -> bool:
        """Whether it is left behind by a caller that gave up before `fn`."""
        return self._on_lost is None

    def flow(self) -> Flow[Union[Recorded, IdempotencyError]]:  # noqa: C901 - one loop
        """Repeats for record_timeout from now."""
        give_up_at = now() + self._config.record_timeout
        backoff = Backoff()
        has_refreshed = False
        while True:
            left = max(give_up_at - now(), _SHORTEST_TRY)
            reply = yield Call(self._rpc, self._bytes, min(self._config.rpc_timeout, left))
            failure = unreadable(self._rpc)
            if isinstance(reply, bytes):
                recorded = self._read(reply)
                if recorded is not None:
                    return recorded
            elif isinstance(reply, CallFailure):
                failure = reply
            pause = 0.0
            if failure.code == UNAUTHENTICATED:
                if has_refreshed:
                    return failure.error()
                has_refreshed = True
                call_hook(self._config.hooks.refresh_credentials)
            elif failure.is_too_large:
                if not self._omit_body():
                    return failure.error()
            elif self._may_be_early and failure.kind in (
                ErrorKind.RECORD_NOT_FOUND,
                ErrorKind.LEASE_LOST,
            ):
                self._may_be_early = False
                pause = _LATE_LOOK
            elif not failure.is_worth_recording_again:
                return failure.error()
            else:
                # A negative pushback is no reason to lose an outcome.
                pause = backoff.next(failure.retry_after)
            if now() >= give_up_at:
                return failure.error(ErrorKind.OUTCOME_NOT_RECORDED)
            call_hook(self._config.hooks.on_retry, self._rpc, failure.error())
            yield Sleep(min(now() + pause, give_up_at))

    def end(self, value: object) -> None:
        """Takes what the flow came to. Once; later calls change nothing."""
        with self._lock:
            if self._is_ending:
                return
            self._is_ending = True
        if isinstance(value, (Recorded, IdempotencyError)):
            result = value
        else:
            # A bug in this client, which its log has. The work is done all the same.
            result = OutcomeNotRecorded("the client failed to record it")
        try:
            if isinstance(result, IdempotencyError) and self._on_lost is not None:
                self._on_lost(result)
        finally:
            # Also if Ctrl-C comes in the hook: somebody waits for it.
            self.result = result
            self.on_end()

    def abandon(self) -> None:
        """Ends it as not recorded, unless it has ended."""
        self.end(OutcomeNotRecorded("the client was closed before the service had recorded it"))

    def _read(self, data: bytes) -> Optional[Recorded]:
        answer_type = service.CompleteResponse if self._rpc == "Complete" else service.FailResponse
        answer: Union[service.CompleteResponse, service.FailResponse] = answer_type()
        try:
            answer.ParseFromString(data)
        except DecodeError:
            return None
        if not answer.HasField("finish_time"):
            return None
        return Recorded(instant_of(answer.finish_time), self._has_omitted)

    def _omit_body(self) -> bool:
        self._has_omitted = True
        if not omit_body(self._request):
            return False
        self._bytes = self._request.SerializeToString(deterministic=True)
        return True
