"""A service in this process, for what the scenarios cannot ask of a real one."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent import futures
from typing import Any, Callable, Iterator, Optional

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from idempotency_client import (
    INSECURE,
    Client,
    ClientOptions,
    Hooks,
    Key,
    Outcome,
    Payload,
    Request,
    WorkResult,
)
from idempotency_client._generated import idempotency_service_pb2 as pb
from idempotency_client._generated import idempotency_service_pb2_grpc as pb_grpc

KEY = Key("acme", "order-7")
REQUEST = Request("POST /payments", Payload(b"{}", "application/json"))
DOWNSTREAM_KEY = "3d3b1d3a-5f5d-4d7c-9c5c-2f6b8d2f1a10"
DONE = WorkResult.completed(Outcome(201, body=b"done"))

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


def eventually(is_so: Callable[[], bool], what: str) -> None:
    """Waits for a condition that another thread brings about."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, f"not within 30 s: {what}"
        time.sleep(0.005)


async def eventually_in_loop(is_so: Callable[[], bool], what: str) -> None:
    """The same in asyncio: the loop goes on meanwhile."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, f"not within 30 s: {what}"
        await asyncio.sleep(0.005)


class Service(pb_grpc.IdempotencyServiceServicer):
    """Starts every attempt and records everything, but for what `behaviours` say by RPC."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.behaviours: dict[str, Behaviour] = {}
        self.lease = 60.0
        self.metadata: list[dict[str, Any]] = []
        self.peers: dict[str, str] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(32))
        pb_grpc.add_IdempotencyServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.target = f"127.0.0.1:{port}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def client(self, **options: Any) -> Client:
        return Client(self.target, INSECURE, ClientOptions(**options))

    def requests(self, rpc: str) -> list[Any]:
        return [request for name, request in self.calls if name == rpc]

    def Begin(self, request: pb.BeginRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._do("Begin", request, context, self._started)

    def Complete(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._do("Complete", request, context, lambda *_: self._ended(pb.CompleteResponse()))

    def Fail(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._do("Fail", request, context, lambda *_: self._ended(pb.FailResponse()))

    def Renew(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._do("Renew", request, context, self._renewed)

    def Lookup(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._do("Lookup", request, context, lambda *_: pb.LookupResponse(record_id="r"))

    def _do(self, rpc: str, request: Any, context: grpc.ServicerContext, usual: Behaviour) -> Any:
        self.metadata.append(dict(context.invocation_metadata()))
        self.peers[rpc] = context.peer()
        self.calls.append((rpc, request))
        return self.behaviours.get(rpc, usual)(request, context)

    def _started(self, request: pb.BeginRequest, _: Any) -> pb.BeginResponse:
        response = pb.BeginResponse(record_id="r")
        response.started.attempt_id = request.attempt_id
        response.started.attempt_number = 1
        response.started.downstream_key = DOWNSTREAM_KEY
        response.started.lease_remaining.FromMilliseconds(round(self.lease * 1000))
        return response

    def _renewed(self, _request: Any, _: Any) -> pb.RenewResponse:
        response = pb.RenewResponse(record_id="r")
        response.lease_remaining.FromMilliseconds(round(self.lease * 1000))
        return response

    @staticmethod
    def _ended(response: Any) -> Any:
        response.record_id = "r"
        response.finish_time.FromSeconds(1)
        return response


def refuse(code: grpc.StatusCode, reason: str = "", **info: Any) -> Behaviour:
    """Refuses, as the service does."""

    def behave(_: Any, context: grpc.ServicerContext) -> Any:
        if reason:
            status = status_pb2.Status(code=code.value[0])
            packed = AnyMessage()
            packed.Pack(
                error_details_pb2.ErrorInfo(reason=reason, domain="idempotency.v1", metadata=info)
            )
            status.details.append(packed)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
        context.abort(code, "refused")

    return behave


class Gate:
    """Holds calls until it is opened."""

    def __init__(self, then: Optional[Behaviour] = None) -> None:
        self.opened = threading.Event()
        self._then = then

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.opened.wait(30)
        if self._then is not None:
            return self._then(request, context)
        context.abort(grpc.StatusCode.UNAVAILABLE, "held, then let go")
        return None


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.stop()


class Lost:
    """What on_outcome_not_recorded was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Key, WorkResult, Any]] = []

    @property
    def hooks(self) -> Hooks:
        return Hooks(on_outcome_not_recorded=lambda *given: self.told.append(given))
