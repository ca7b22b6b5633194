"""One of the synchronous client's two channels."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Optional, Union

import grpc

from ._check import check_text, invalid
from ._clock import LONGEST_NAP, now
from ._failure import CLOSED, DEADLINE_EXCEEDED, OK, UNAVAILABLE, CallFailure, failure_of
from ._flow import Call, Reply
from ._generated import idempotency_service_pb2 as service
from .options import CancelToken

METHOD_PREFIX = f"/{service.DESCRIPTOR.services_by_name['IdempotencyService'].full_name}/"
RPCS = ("Begin", "Complete", "Fail", "Renew", "Lookup")

_READY = grpc.ChannelConnectivity.READY.value[0]
_DOWN = grpc.ChannelConnectivity.TRANSIENT_FAILURE.value[0]

# How much later than its deadline gRPC may tell that a call is over.
_GRPC_SLACK = 5.0
# How long one look at a channel that is down takes. The answer of a try may be late by as much.
_LOOK = 0.01
_FIRST_NAP = 0.001
# Longer time-outs are cut to this one: what gRPC and the standard library can count.
LONGEST_TIMEOUT = 365 * 24 * 3600.0
_SHORTEST_TIMEOUT = 0.001
_LONGEST_SETTLING_NAP = 0.02


class Insecure:
    """Instead of credentials: plain text. See ``INSECURE``."""


INSECURE = Insecure()
"""Plain text, for a service of one's own machine or a network that is trusted."""

Credentials = Union[grpc.ChannelCredentials, Insecure]


class Link:
    """Bytes to the service and back. Thread-safe. Connects at the first call."""

    def __init__(
        self, target: str, credentials: Credentials, arguments: tuple[tuple[str, Any], ...]
    ) -> None:
        if isinstance(credentials, Insecure):
            self._channel = grpc.insecure_channel(target, options=arguments)
        else:
            self._channel = grpc.secure_channel(target, credentials, options=arguments)
        self._watching = threading.Lock()
        self._sending = threading.Lock()
        self._is_closed = False
        self._has_threads = True
        # Without serializers: a Complete is repeated with identical bytes, and an answer that
        # cannot be parsed is this library's to judge.
        self._calls: dict[str, Any] = {
            rpc: self._channel.unary_unary(METHOD_PREFIX + rpc) for rpc in RPCS
        }

    def close(self) -> None:
        """Cancels what is under way."""
        with self._sending:
            self._is_closed = True
            can_close = self._has_threads or self._recovers()
        if can_close:
            self._channel.close()
            return
        # It would wait for ever for the call that nobody ends; also when it is dropped.
        with contextlib.suppress(AttributeError):
            self._channel._call_state.channel = None  # type: ignore[attr-defined]  # noqa: SLF001

    def send(self, call: Call, answer: Callable[[Reply], None]) -> Callable[[], object]:
        """Begins a call, tells `answer` its reply, once, and returns what cancels it."""
        future = self._begin(call)
        if future is None:
            answer(self._call_without_thread(call))
            return lambda: None
        future.add_done_callback(lambda ended: answer(_reply_of(ended)))
        cancel: Callable[[], object] = future.cancel
        return cancel

    # grpcio starts a thread for the first of the calls under way. It cannot at the system's limit
    # of threads, nor, in Python 3.12, once the main thread has ended. Where that is found out by
    # trying, the call may have been sent all the same, and the channel counts on a thread that is
    # not there: no call of it would be told to end before it runs. Blocking calls need no thread.

    def _begin(self, call: Call) -> Any:
        """None: by a future it cannot be done."""
        # One at a time: between the failure of one and its being noted no other may begin.
        with self._sending:
            if self._is_closed or not _may_start_threads():
                return None
            if not self._has_threads and not self._recovers():
                return None
            try:
                return self._calls[call.rpc].future(call.request, timeout=_bounded(call.timeout))
            except Exception:  # noqa: BLE001 - whatever it is, it is tried in the other way
                self._has_threads = False
                return None

    def _recovers(self) -> bool:
        try:
            # Not public. Where a later grpcio lacks it, the calls go on without threads.
            grpc._channel._run_channel_spin_thread(self._channel._call_state)  # type: ignore[attr-defined]  # noqa: SLF001
        except (AttributeError, RuntimeError):
            return False
        self._has_threads = True
        return True

    def _call_without_thread(self, call: Call) -> Reply:
        if self._is_closed:
            return CLOSED
        try:
            data, _ = self._calls[call.rpc].with_call(call.request, timeout=_bounded(call.timeout))
        except grpc.RpcError as error:
            return _reply_of(error)
        except Exception:  # noqa: BLE001 - as a try that failed
            if self._is_closed:
                return CLOSED
            return CallFailure(UNAVAILABLE, "the call could not be made")
        return data if isinstance(data, bytes) else CallFailure(UNAVAILABLE, "no answer came")

    def call(self, call: Call, token: CancelToken) -> Reply:
        """One try, on this thread, until it is answered or `token` cancels it."""
        if not call.watched or not self._is_down():
            return _Try(self, call, token).reply()
        if not call.certain:
            reply = _Try(self, call, token).reply()
            return _with_was_down(reply, was_down=self._is_still_down())
        # One at a time: grpcio hands what several watches of a channel see to any of them.
        if not self._watching.acquire(timeout=_bounded(call.timeout)):
            return _Try(self, call, token).reply()
        try:
            only_down = self._is_down()
            one = _Try(self, call, token)
            only_down = one.is_answered_while(self._look) and only_down
        finally:
            self._watching.release()
        reply = one.reply()
        return _with_was_down(reply, was_down=only_down and self._is_still_down())

    def settle(self, until: float, token: CancelToken) -> bool:
        """Waits until the channel is connected or down, connecting if need be; whether it is."""
        nap = _FIRST_NAP
        while True:
            # None: nobody can say, so there is nothing to wait for.
            if self._state(try_to_connect=True) in (_READY, _DOWN, None):
                return True
            left = until - now()
            if left <= 0 or token.wait(min(left, nap)):
                return False
            nap = min(2 * nap, _LONGEST_SETTLING_NAP)

    def _is_down(self) -> bool:
        """Whether the channel certainly has no connection, and has told its calls so."""
        return self._state(try_to_connect=False) == _DOWN

    def _is_still_down(self) -> bool:
        # A try that was made anew may have been sent the first time.
        return self._has_threads and self._is_down()

    # grpcio's public way to ask for the state (subscribe) answers late, from a thread of its own,
    # which is too late to say that a call was never sent; and that thread breaks, with a traceback,
    # when the channel is closed. The two below are not public. Where a later grpcio lacks them the
    # state is not known, and nothing is believed to be never sent. A test fails then.

    def _state(self, *, try_to_connect: bool) -> Optional[int]:
        try:
            channel: Any = self._channel
            state = channel._channel.check_connectivity_state(try_to_connect)  # noqa: SLF001
        except (AttributeError, TypeError, ValueError):
            return None
        return state if isinstance(state, int) else None

    def _look(self) -> bool:
        """Whether the channel stays down for a moment; also a flap in between is seen."""
        try:
            channel: Any = self._channel
            event = channel._channel.watch_connectivity_state(  # noqa: SLF001
                _DOWN, time.time() + _LOOK
            )
        except (AttributeError, TypeError, ValueError):
            return False
        return event.success is False or event.success == 0


class _Try:
    """A call under way that this thread waits for. The token cancels it."""

    def __init__(self, link: Link, call: Call, token: CancelToken) -> None:
        self._answered = threading.Event()
        self._replies: list[Reply] = []
        self._give_up_at = now() + call.timeout + _GRPC_SLACK
        self._cancel = link.send(call, self._answer)
        self._take_back = token.add_callback(self._cancel)

    def is_answered_while(self, holds: Callable[[], bool]) -> bool:
        """Waits for it as long as something holds, which is asked at least once."""
        try:
            while holds():
                if self._answered.is_set():
                    return True
        except BaseException:
            self._end()
            raise
        return False

    def reply(self) -> Reply:
        """Waits for it. Whatever interrupts the wait cancels the call."""
        try:
            while not self._answered.wait(LONGEST_NAP) and now() < self._give_up_at:
                pass
        finally:
            self._end()
        if not self._replies:
            return CallFailure(DEADLINE_EXCEEDED, "gRPC did not tell how the call ended")
        return self._replies[0]

    def _end(self) -> None:
        self._take_back()
        if not self._replies:
            self._cancel()

    def _answer(self, reply: Reply) -> None:
        self._replies.append(reply)
        self._answered.set()


def _with_was_down(reply: Reply, *, was_down: bool) -> Reply:
    return replace(reply, was_down=was_down) if isinstance(reply, CallFailure) else reply


def _may_start_threads() -> bool:
    """False for certain once the interpreter refuses; only the end of a program makes it do so."""
    if threading.main_thread().is_alive():
        return True
    try:
        threading.Thread(target=lambda: None, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _bounded(timeout: float) -> float:
    return min(max(timeout, _SHORTEST_TIMEOUT), LONGEST_TIMEOUT)


def _reply_of(ended: Any) -> Reply:
    code = ended.code()
    if code is not None and code.value[0] == OK:
        data = ended.result()
        if isinstance(data, bytes):
            return data
    return failure_of(code, ended.details(), ended.trailing_metadata())


def check_endpoint(target: Any, credentials: Any) -> None:
    """Raises InvalidField."""
    check_text("target", target, required=True)
    if not isinstance(credentials, (grpc.ChannelCredentials, Insecure)):
        raise invalid("credentials", "must be grpc.ChannelCredentials or INSECURE")
