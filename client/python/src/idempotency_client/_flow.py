"""What both clients do, without doing it: flows that say which step comes next.

A flow is a generator. It yields a step, gets its result back, and returns what all came to. It does
no I/O and waits for nothing, so that the synchronous and the asyncio client share every decision,
and tests can play the service and the clock.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional, TypeVar, Union

from ._backoff import Backoff
from ._clock import now
from ._failure import UNAUTHENTICATED, UNAVAILABLE, CallFailure, unreadable
from ._plan import Caller, Config

logger = logging.getLogger("idempotency_client")


@dataclass(frozen=True)
class Call:
    """One try of a call. Its result: the answer's bytes, or a CallFailure.

    `timeout` is in seconds. `waits`: on the channel for waits. `watched`: tell by the failure's
    was_down whether the channel had no connection before and after; `certain`: and in between.
    """

    rpc: str
    request: bytes
    timeout: float
    waits: bool = False
    watched: bool = False
    certain: bool = False


@dataclass(frozen=True)
class Sleep:
    """Until then, or until the caller cancels. Its result: None."""

    until: float


@dataclass(frozen=True)
class Settle:
    """Until the channel is connected or known not to be, or until then. Its result: whether."""

    waits: bool
    until: float


Step = Union[Call, Sleep, Settle]
Reply = Union[bytes, CallFailure, bool, None]
T = TypeVar("T")
Flow = Generator[Step, Reply, T]

# At least a moment for the last try, however little of the budget is left; and more of it where the
# answer has to be certain, because one time-out forbids to run unprotected.
LAST_TRY = 0.25
CERTAIN_TRY = 1.0


@dataclass
class Tries:
    """What is known of the tries of one attempt's Begin, and of its first Renew.

    `count`: how many were made. `may_be_started`: one of them may have started the attempt.
    `in_flight`: one is under way.
    `only_without_effect`: each was never sent, or refused by a service that says it is away.
    `ran_out_of_time`: they ended because no further one fitted into the time.
    """

    count: int = 0
    may_be_started: bool = False
    in_flight: bool = False
    only_without_effect: bool = True
    ran_out_of_time: bool = False

    def note(self, failure: CallFailure, *, believe_never_sent: bool) -> None:
        """After a failed try."""
        never_sent = believe_never_sent and failure.was_never_sent
        if failure.may_have_effect and not never_sent:
            self.may_be_started = True
        if not never_sent and not failure.says_away:
            self.only_without_effect = False


def is_interruption(error: BaseException) -> bool:
    """Whether it ends the program, as Ctrl-C does: only in the main thread is it for real."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and isinstance(error, (KeyboardInterrupt, SystemExit))


def call_hook(hook: Optional[Callable[..., object]], *arguments: Any) -> None:
    """Calls a hook, if there is one. What it raises is dropped: no hook may cost an outcome."""
    if hook is None:
        return
    try:
        hook(*arguments)
    except BaseException as mistake:
        if is_interruption(mistake):
            raise
        # No traceback: its words are the application's, and may hold anything.
        logger.error("a hook raised %s", type(mistake).__name__)  # noqa: TRY400


def repeat(  # noqa: C901 - one loop, read from top to bottom
    config: Config,
    caller: Caller,
    give_up_at: float,
    rpc: str,
    make: Callable[[float], Call],
    parse: Callable[[bytes], Optional[T]],
    tries: Tries,
    settle: Optional[Callable[[], Settle]] = None,
    shortest_try: float = LAST_TRY,
) -> Flow[Union[T, CallFailure]]:
    """Begin, Lookup, Renew: until answered, refused for good, or there is no more time.

    `make` gets the seconds that a try may take at most. `settle`: how to wait, before each try, for
    the channel's state to be known.
    """
    backoff = Backoff()
    has_refreshed = False
    failure = CallFailure(UNAVAILABLE, "the service could not be connected to")
    while True:
        if settle is not None:
            is_settled = yield settle()
            if not is_settled and (caller.is_gone or now() >= give_up_at):
                tries.ran_out_of_time = True
                return failure
        left = max(give_up_at - now(), shortest_try)
        call = make(max(0.0, min(left, caller.deadline - now())))
        tries.count += 1
        tries.in_flight = True
        reply = yield call
        tries.in_flight = False
        if isinstance(reply, bytes):
            answer = parse(reply)
            if answer is not None:
                return answer
        failure = reply if isinstance(reply, CallFailure) else unreadable(rpc)
        tries.note(failure, believe_never_sent=call.watched)
        if caller.is_gone:
            return failure
        refresh = failure.code == UNAUTHENTICATED and not has_refreshed
        if refresh:
            has_refreshed = True
            call_hook(config.hooks.refresh_credentials)
        elif not failure.is_worth_repeating:
            return failure
        next_at = now() + (0.0 if refresh else backoff.next(failure.retry_after))
        if next_at >= give_up_at:
            tries.ran_out_of_time = True
            return failure
        call_hook(config.hooks.on_retry, rpc, failure.error())
        yield Sleep(min(next_at, caller.deadline))
        if caller.is_gone:
            return failure
