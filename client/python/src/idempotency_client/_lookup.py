"""Lookup."""

from __future__ import annotations

from typing import Optional, Union

from ._clock import now
from ._failure import CallFailure
from ._flow import Call, Flow, Tries, repeat
from ._generated import idempotency_service_pb2 as service
from ._plan import Caller, Config
from ._start import parse
from ._wire import record_from_wire
from .errors import IdempotencyError
from .types import Record

# Lookup has no options of its own; as RunOptions.start_timeout's default.
_TIMEOUT = 30.0


def lookup_flow(config: Config, request: bytes) -> Flow[Union[Record, IdempotencyError]]:
    """Repeats for 30 s."""

    def make(longest: float) -> Call:
        return Call("Lookup", request, min(config.rpc_timeout, longest))

    def read(data: bytes) -> Optional[service.LookupResponse]:
        message = parse(service.LookupResponse, data)
        return message if message is not None and message.record_id else None

    give_up_at = now() + _TIMEOUT
    answer = yield from repeat(config, Caller(None), give_up_at, "Lookup", make, read, Tries())
    return answer.error() if isinstance(answer, CallFailure) else record_from_wire(answer)
