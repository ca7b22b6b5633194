"""One of the asyncio client's two channels."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

import grpc
import grpc.aio

from ._clock import now
from ._failure import CANCELLED, CLOSED, INTERNAL, UNAVAILABLE, CallFailure, failure_of
from ._flow import Call, Reply
from ._link import LONGEST_TIMEOUT, METHOD_PREFIX, RPCS, Credentials, Insecure

_READY = grpc.ChannelConnectivity.READY
_DOWN = grpc.ChannelConnectivity.TRANSIENT_FAILURE


class AsyncLink:
    """Bytes to the service and back. Made inside its loop; connects at the first call."""

    def __init__(
        self, target: str, credentials: Credentials, arguments: tuple[tuple[str, Any], ...]
    ) -> None:
        if isinstance(credentials, Insecure):
            self._channel = grpc.aio.insecure_channel(target, options=arguments)
        else:
            self._channel = grpc.aio.secure_channel(target, credentials, options=arguments)
        self._is_closed = False
        self._is_closing = False
        self._begins: set[Any] = set()
        self._calls: dict[str, Any] = {
            rpc: self._channel.unary_unary(METHOD_PREFIX + rpc) for rpc in RPCS
        }

    async def close(self) -> None:
        """Cancels what is under way."""
        self._is_closed = True
        await self._channel.close()

    def cancel_begins(self) -> None:
        """No `fn` is to begin any more: whoever waits for the right to it is told now."""
        self._is_closing = True
        for begin in list(self._begins):
            begin.cancel()

    async def call(self, call: Call) -> Reply:
        """One try. A cancellation of this cancels the call."""
        flap: Optional[asyncio.Task[None]] = None
        if self._is_closed:
            return CLOSED
        if call.watched and self._channel.get_state() is _DOWN:
            # Ends if a connection comes while the try is under way.
            flap = asyncio.ensure_future(self._channel.wait_for_state_change(_DOWN))
        rpc: Any = None
        try:
            timeout = min(max(call.timeout, 0.001), LONGEST_TIMEOUT)
            rpc = self._calls[call.rpc](call.request, timeout=timeout)
            if call.rpc == "Begin":
                self._begins.add(rpc)
            data: Any = await rpc
        except grpc.aio.AioRpcError as error:
            # The watch hears of a change first; now it has also noticed.
            await asyncio.sleep(0)
            was_down = flap is not None and not flap.done() and self._is_down()
            return failure_of(
                error.code(), error.details(), error.trailing_metadata(), was_down=was_down
            )
        except (grpc.aio.UsageError, asyncio.CancelledError):
            # Closing the channel cancels its calls, and that looks like a cancellation of ours.
            if self._is_closed:
                return CLOSED
            if self._is_closing and rpc in self._begins:
                return CallFailure(CANCELLED, "the client is closing")
            raise
        except Exception:  # noqa: BLE001 - a try that failed, and is repeated as one
            return CallFailure(UNAVAILABLE, "the call could not be made")
        finally:
            self._begins.discard(rpc)
            if flap is not None:
                flap.cancel()
        return data if isinstance(data, bytes) else CallFailure(INTERNAL, "no answer came")

    def _is_down(self) -> bool:
        return not self._is_closed and self._channel.get_state() is _DOWN

    async def settle(self, until: float) -> bool:
        """Waits until the channel is connected or down, connecting if need be; whether it is."""
        while not self._is_closed:
            state = self._channel.get_state(try_to_connect=True)
            if state in (_READY, _DOWN):
                return True
            left = until - now()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._channel.wait_for_state_change(state), left)
            except asyncio.TimeoutError:
                return False
        return False
