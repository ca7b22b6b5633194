"""The synchronous client's life: forks, threads, channels and credentials."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from concurrent import futures
from typing import Any

import grpc
import pytest

import idempotency_client as client
from idempotency_client import OnLeaseExpiry, RunOptions
from idempotency_client._generated import idempotency_service_pb2_grpc as pb_grpc
from service import DONE, KEY, REQUEST, Service, eventually


def run(runner: client.Runner, **options: Any) -> client.RunResult:
    return runner.run_once(
        KEY,
        REQUEST,
        on_lease_expiry=OnLeaseExpiry.TAKE_OVER,
        fn=lambda _: DONE,
        options=RunOptions(**options),
    )


def test_a_client_that_was_used_before_a_fork_refuses_in_the_child(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.client() as runner:
        run(runner)
        with monkeypatch.context() as patch:
            parent = os.getpid()
            patch.setattr(os, "getpid", lambda: parent + 1)
            with pytest.raises(client.Internal, match="fork"):
                run(runner)
            runner.close()
        assert isinstance(run_other(service), client.Completed)


def run_other(service: Service) -> client.RunResult:
    with service.client() as runner:
        return run(runner)


def test_a_client_that_is_dropped_leaves_no_thread(service: Service) -> None:
    def worker_threads() -> int:
        return sum(thread.name == "idempotency-client" for thread in threading.enumerate())

    before = worker_threads()
    run(service.client())
    gc.collect()
    eventually(lambda: worker_threads() == before, "its thread has ended")


def test_a_cancelled_token_cancels_what_comes_later(service: Service) -> None:
    token = client.CancelToken()
    token.cancel()
    with service.client() as runner, pytest.raises(client.Cancelled):
        run(runner, cancel=token)
    assert service.calls == []


def test_waits_have_connections_of_their_own(service: Service) -> None:
    async def in_asyncio() -> None:
        async with client.AsyncClient(service.target, client.INSECURE) as runner:
            await runner.run_once(
                KEY,
                REQUEST,
                on_lease_expiry=OnLeaseExpiry.TAKE_OVER,
                fn=lambda _: DONE,  # type: ignore[arg-type, return-value]
                options=RunOptions(wait_timeout=1),
            )

    with service.client() as runner:
        run(runner, wait_timeout=1)
    assert service.peers["Begin"] != service.peers["Complete"]
    asyncio.run(in_asyncio())
    assert service.peers["Begin"] != service.peers["Complete"]


def test_calls_are_spread_round_robin_without_grpcs_own_retries(service: Service) -> None:
    arguments = dict(service.client()._config.channel_arguments)
    assert arguments["grpc.enable_retries"] == 0
    assert arguments["grpc.service_config_disable_resolution"] == 1
    assert "round_robin" in arguments["grpc.service_config"]
    assert arguments["grpc.use_local_subchannel_pool"] == 1
    assert arguments["grpc.keepalive_time_ms"] == 20_000
    assert arguments["grpc.keepalive_timeout_ms"] == 10_000
    assert arguments["grpc.max_reconnect_backoff_ms"] == 5_000
    fast = dict(service.client(keepalive_interval=1)._config.channel_arguments)
    assert fast["grpc.keepalive_time_ms"] == 10_000


def test_call_credentials_go_with_every_call(service: Service) -> None:
    # Local credentials are the plainest that take call credentials.
    class Token(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            callback((("authorization", "Bearer t"),), None)

    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(), grpc.metadata_call_credentials(Token())
    )
    server = grpc.server(futures.ThreadPoolExecutor(4))
    pb_grpc.add_IdempotencyServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    port = server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
    server.start()
    try:
        with client.Client(f"127.0.0.1:{port}", credentials) as runner:
            assert isinstance(run(runner), client.Completed)
    finally:
        server.stop(None).wait()
    assert [metadata.get("authorization") for metadata in service.metadata] == ["Bearer t"] * 2
