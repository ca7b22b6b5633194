"""From the first Begin to the right to work, or to an answer without work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, TypeVar, Union

from google.protobuf.message import DecodeError, Message

from ._clock import now
from ._failure import CallFailure
from ._flow import CERTAIN_TRY, LAST_TRY, Call, Flow, Settle, Sleep, Tries, repeat
from ._generated import idempotency_service_pb2 as service
from ._plan import Caller, Config, Plan
from ._recording import Recording
from ._wire import (
    in_progress_from_wire,
    record_request,
    renew_request,
    replayed_from_wire,
    set_duration,
    span_of,
)
from .errors import (
    Cancelled,
    DeadlineExceeded,
    ErrorKind,
    IdempotencyError,
    Internal,
    LeaseLost,
    Unavailable,
)
from .options import StopReason
from .types import InProgress, Replayed, WorkResult

# The service counts a longer wait as this one; a caller that wants more is asked for again.
_LONGEST_WAIT = 30.0
# Whatever retry_after says, the service is not asked in a busy loop.
_SHORTEST_PAUSE = 0.05
_DOWNSTREAM_KEY_LENGTH = 36

_NOT_BEGUN = WorkResult.not_applied("NOT_BEGUN", "the caller gave up before the work began")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Lease:
    """What an accepted Begin or Renew gave. The local deadline counts from when it was sent."""

    sent_at: float
    remaining: float

    @property
    def deadline(self) -> float:
        """By this process's clock."""
        return self.sent_at + self.remaining


@dataclass(frozen=True)
class Granted:
    """The work is this call's to do, while the lease lasts."""

    response: service.BeginResponse
    lease: Lease


@dataclass(frozen=True)
class Unprotect:
    """The service was certainly not reached, and the caller has typed out to go on without it."""

    error: IdempotencyError


Verdict = Union[Granted, Unprotect, Replayed, InProgress, IdempotencyError]


def parse(message_type: type[M], data: bytes) -> Optional[M]:
    """None if it cannot be read."""
    try:
        message = message_type()
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message


def closed_error() -> IdempotencyError:
    """Of a call on a client that is closed, or closing before the call's `fn` began."""
    return Unavailable("the client is closed")


def gone_error(why: StopReason) -> IdempotencyError:
    """Cancelled or DeadlineExceeded."""
    if why is StopReason.CANCELLED:
        return Cancelled("the caller cancelled")
    return DeadlineExceeded("the caller's own time is over")


class Start:
    """One call's start. `flow` is driven once; then, however it ended, `release` is asked for."""

    def __init__(self, plan: Plan, config: Config, caller: Caller) -> None:
        self._plan = plan
        self._config = config
        self._caller = caller
        self._tries = Tries()
        self._is_granted = False
        self._is_refused_as_over = False
        self._sent_at = 0.0

    def flow(self) -> Flow[Verdict]:
        """What the call comes to before `fn`."""
        wait_end = now() + self._plan.wait_timeout
        give_up_at = wait_end + self._plan.start_timeout
        while True:
            if self._caller.is_gone:
                return gone_error(self._caller.why_gone())
            answer = yield from self._begin(wait_end, give_up_at)
            if isinstance(answer, CallFailure):
                return self._on_failure(answer)
            which = answer.WhichOneof("result")
            if which == "started":
                return (yield from self._on_started(answer, give_up_at))
            if which == "replay":
                replayed = replayed_from_wire(answer)
                if replayed is not None:
                    return replayed
            if which != "in_progress":
                self._tries.may_be_started = True
                return Internal("the service's answer to Begin is none that this client knows")
            # Another attempt owns the work, so ours does not. It is asked again if the service
            # ended the wait early, which it may when it holds too many.
            self._tries.may_be_started = False
            self._tries.only_without_effect = False
            in_progress = in_progress_from_wire(answer)
            next_at = now() + max(in_progress.retry_after.total_seconds(), _SHORTEST_PAUSE)
            if next_at >= wait_end:
                return in_progress
            yield Sleep(min(next_at, self._caller.deadline))

    def give_back(self) -> None:
        """What was granted is not used after all: `release` frees it."""
        self._is_granted = False

    def release(self) -> Optional[Recording]:
        """The Fail that a call which gave up before `fn` leaves behind, if it has to leave one.

        Also when the flow was left in the middle: then the try under way may have started the
        attempt.
        """
        if self._is_granted:
            return None
        may_be_early = self._tries.may_be_started or self._tries.in_flight
        if not may_be_early and not self._is_refused_as_over:
            return None
        request = record_request(self._plan.begin, _NOT_BEGUN)
        return Recording(self._config, request, may_be_early=may_be_early)

    def _on_failure(self, failure: CallFailure) -> Verdict:
        if self._caller.is_gone:
            return gone_error(self._caller.why_gone())
        # The service knows this attempt as one that was started, or cannot tell us whether it does
        # (it may have run the call twice): what never began is said not to have happened. If the
        # attempt is none of the record's, that changes nothing.
        self._is_refused_as_over = failure.kind in (
            ErrorKind.LEASE_LOST,
            ErrorKind.NEEDS_RESOLUTION,
        )
        error = failure.error()
        if (
            self._plan.may_run_unprotected
            and self._tries.ran_out_of_time
            and self._tries.count > 0
            and self._tries.only_without_effect
        ):
            return Unprotect(error)
        return error

    def _begin(
        self, wait_end: float, give_up_at: float
    ) -> Flow[Union[service.BeginResponse, CallFailure]]:
        plan, request = self._plan, self._plan.begin
        waits = plan.wait_timeout > 0
        # A record on HOLD that is wrongly taken for never begun would need a person: there the
        # release is sent on the least suspicion.
        watched = not plan.hold

        def make(longest: float) -> Call:
            wait = max(0.0, min(wait_end - now(), _LONGEST_WAIT))
            if waits:
                set_duration(wait, request.wait_timeout)
            timeout = min(self._config.rpc_timeout + wait, longest)
            # Deterministic: a repeat has the same bytes, in whichever order labels were given.
            data = request.SerializeToString(deterministic=True)
            self._sent_at = now()
            certain = plan.may_run_unprotected
            return Call("Begin", data, timeout, waits, watched, certain)

        def settle() -> Settle:
            until = min(give_up_at, self._caller.deadline)
            if not plan.may_run_unprotected:
                # A channel that neither connects nor fails is tried all the same.
                until = min(until, now() + self._config.rpc_timeout)
            return Settle(waits, until)

        return (
            yield from repeat(
                self._config,
                self._caller,
                give_up_at,
                "Begin",
                make,
                lambda data: parse(service.BeginResponse, data),
                self._tries,
                settle if watched else None,
                CERTAIN_TRY if plan.may_run_unprotected else LAST_TRY,
            )
        )

    def _on_started(self, response: service.BeginResponse, give_up_at: float) -> Flow[Verdict]:
        self._tries.may_be_started = True
        started = response.started
        is_ours = started.attempt_id == self._plan.begin.attempt_id
        is_whole = (
            started.HasField("lease_remaining")
            and bool(response.record_id)
            and started.attempt_number >= 1
            and len(started.downstream_key) == _DOWNSTREAM_KEY_LENGTH
        )
        if not is_ours or not is_whole:
            return Internal("the service's answer is no start of this attempt")
        lease = Lease(self._sent_at, span_of(started.lease_remaining))
        # Over before it came here: a repeat of a Begin whose first answer was lost, or a slow way.
        # Only a Renew makes it good.
        if lease.deadline <= now():
            renewed = yield from self._renew(give_up_at)
            if self._caller.is_gone:
                return gone_error(self._caller.why_gone())
            if isinstance(renewed, CallFailure):
                return renewed.error()
            lease = Lease(self._sent_at, span_of(renewed.lease_remaining))
            if lease.deadline <= now():
                return LeaseLost("the lease is shorter than the way to the service and back")
        if self._caller.is_gone:
            return gone_error(self._caller.why_gone())
        self._is_granted = True
        return Granted(response, lease)

    def _renew(self, give_up_at: float) -> Flow[Union[service.RenewResponse, CallFailure]]:
        data = renew_request(self._plan.begin).SerializeToString()

        def make(longest: float) -> Call:
            self._sent_at = now()
            return Call("Renew", data, min(self._config.rpc_timeout, longest))

        return (
            yield from repeat(
                self._config, self._caller, give_up_at, "Renew", make, parse_renew, self._tries
            )
        )


def parse_renew(data: bytes) -> Optional[service.RenewResponse]:
    """None if it cannot be read or lacks what every answer has."""
    message = parse(service.RenewResponse, data)
    return message if message is not None and message.HasField("lease_remaining") else None
