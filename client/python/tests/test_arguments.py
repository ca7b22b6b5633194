"""What the client can see to be wrong is InvalidField, by its name, before anything is sent.

For both clients and both fakes, so that code tested with a fake meets no surprise.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Callable

import grpc
import pytest

import idempotency_client as client
from idempotency_client import (
    INSECURE,
    ClientOptions,
    Fingerprint,
    Hooks,
    InvalidField,
    Key,
    OnLeaseExpiry,
    OnUnavailable,
    Payload,
    Request,
    RunOptions,
)
from idempotency_client.testing import AsyncFakeRunner, FakeRunner
from service import DONE, KEY, REQUEST, Service

Call = Callable[..., Any]
TAKE_OVER = OnLeaseExpiry.TAKE_OVER


def never(_: Any) -> Any:
    raise AssertionError("fn ran")


def sync_call(runner: client.Runner, **given: Any) -> Any:
    key, request = given.pop("key"), given.pop("request")
    return runner.run_once(key, request, **given)


def async_call(make: Callable[[], client.AsyncRunner], **given: Any) -> Any:
    async def call() -> Any:
        runner = make()
        try:
            return await runner.run_once(given.pop("key"), given.pop("request"), **given)
        finally:
            if isinstance(runner, client.AsyncClient):
                await runner.close()

    return asyncio.run(call())


@pytest.fixture(params=["client", "async client", "fake", "async fake"])
def call(request: pytest.FixtureRequest, service: Service) -> Call:
    """run_once with arguments that are right, but for those given."""

    def make(**given: Any) -> Any:
        arguments = {
            "key": KEY,
            "request": REQUEST,
            "on_lease_expiry": TAKE_OVER,
            "fn": never,
            **given,
        }
        if request.param == "client":
            with service.client() as runner:
                return sync_call(runner, **arguments)
        if request.param == "async client":
            return async_call(lambda: client.AsyncClient(service.target, INSECURE), **arguments)
        if request.param == "fake":
            return sync_call(FakeRunner(), **arguments)
        return async_call(AsyncFakeRunner, **arguments)

    return make


def content(content: Any) -> dict[str, Any]:
    return {"request": Request("POST /payments", content)}


def option(**given: Any) -> dict[str, Any]:
    return {"options": RunOptions(**given)}


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("fn", {"fn": None}),
    ("fn", {"fn": "pay"}),
    ("key", {"key": None}),
    ("key", {"key": ("acme", "order-7")}),
    ("merchant_id", {"key": Key("", "k")}),
    ("merchant_id", {"key": Key(7, "k")}),  # type: ignore[arg-type]
    ("merchant_id", {"key": Key(b"acme", "k")}),  # type: ignore[arg-type]
    ("merchant_id", {"key": Key("\ud800", "k")}),
    ("idempotency_key", {"key": Key("acme", "")}),
    ("idempotency_key", {"key": Key("acme", None)}),  # type: ignore[arg-type]
    ("idempotency_key", {"key": Key("acme", b"k")}),  # type: ignore[arg-type]
    ("idempotency_key", {"key": Key("acme", "\udfff")}),
    ("ttl", {"key": Key("acme", "k", "1 day")}),  # type: ignore[arg-type]
    ("request", {"request": None}),
    ("request", {"request": {"operation": "POST /payments"}}),
    ("operation", {"request": Request(7, Payload(b""))}),  # type: ignore[arg-type]
    ("operation", {"request": Request("\ud800", Payload(b""))}),
    ("payload", content(None)),
    ("payload", content(b"{}")),
    ("payload.data", content(Payload("{}"))),  # type: ignore[arg-type]
    ("payload.data", content(Payload(bytearray(b"{}")))),  # type: ignore[arg-type]
    ("payload.data", content(Payload({"amount": 50}))),  # type: ignore[arg-type]
    ("payload.content_type", content(Payload(b"{}", None))),  # type: ignore[arg-type]
    ("fingerprint", content(Fingerprint("00" * 32))),  # type: ignore[arg-type]
    ("fingerprint_scheme", content(Fingerprint(b"\0" * 32, "0"))),  # type: ignore[arg-type]
    ("fingerprint_scheme", content(Fingerprint(b"\0" * 32, 2**31))),
    ("fingerprint_scheme", content(Fingerprint(b"\0" * 32, True))),  # noqa: FBT003
    ("on_lease_expiry", {"on_lease_expiry": None}),
    ("on_lease_expiry", {"on_lease_expiry": "TAKE_OVER"}),
    ("on_lease_expiry", {"on_lease_expiry": 1}),
    ("options", {"options": None}),
    ("options", {"options": {"ttl": 60}}),
    ("on_unavailable", option(on_unavailable="RUN_UNPROTECTED")),
    ("on_unavailable", option(on_unavailable=None)),
    (
        "on_unavailable",
        {
            **option(on_unavailable=OnUnavailable.RUN_UNPROTECTED),
            "on_lease_expiry": OnLeaseExpiry.HOLD,
        },
    ),
    ("classify", option(classify="unknown")),
    ("labels", option(labels=[("a", "b")])),
    ("labels", option(labels={7: "b"})),
    ('labels["a"]', option(labels={"a": 7})),
    ('labels["a"]', option(labels={"a": "\ud800"})),
    ("max_duration", option(max_duration=0)),
    ("timeout", option(timeout="5")),
    ("timeout", option(timeout=float("nan"))),
    ("timeout", option(timeout=float("inf"))),
    ("cancel", option(cancel=7)),
]
for span in ("ttl", "lease_duration", "wait_timeout", "max_duration", "start_timeout"):
    WRONG += [
        (span, option(**{span: wrong}))
        for wrong in (
            -1,
            -0.001,
            timedelta(seconds=-1),
            "60",
            b"60",
            True,
            float("nan"),
            float("inf"),
            10**400,
            timedelta.max,
        )
    ]


@pytest.mark.parametrize(("field", "given"), WRONG)
def test_named_before_anything_is_sent(
    call: Call, service: Service, field: str, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidField) as error:
        call(**given)
    assert [violation.field for violation in error.value.violations] == [field]
    assert error.value.work is None
    assert service.calls == []


def test_a_value_that_is_wrong_is_not_repeated_in_the_error(call: Call) -> None:
    with pytest.raises(InvalidField) as error:
        call(key=Key("acme", 4111111111111111))  # type: ignore[arg-type]
    assert "4111" not in str(error.value)


@pytest.mark.parametrize("timeout", [0, -5, -0.5, timedelta(seconds=-5), timedelta(days=-(10**8))])
def test_a_time_that_is_over_already_is_a_deadline_that_passed(call: Call, timeout: Any) -> None:
    with pytest.raises(client.DeadlineExceeded):
        call(options=RunOptions(timeout=timeout))


def test_a_coroutine_function_is_not_for_the_synchronous_client(service: Service) -> None:
    async def fn(_: Any) -> Any:
        return DONE

    with service.client() as runner:
        for one in (runner, FakeRunner()):
            with pytest.raises(InvalidField) as error:
                one.run_once(KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=fn)  # type: ignore[arg-type]
            assert [violation.field for violation in error.value.violations] == ["fn"]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("target", {"target": ""}),
        ("target", {"target": 50051}),
        ("credentials", {"credentials": None}),
        ("credentials", {"credentials": "insecure"}),
        ("options", {"options": None}),
        ("hooks", {"options": ClientOptions(hooks=None)}),  # type: ignore[arg-type]
        ("hooks.on_retry", {"options": ClientOptions(hooks=Hooks(on_retry=7))}),  # type: ignore[arg-type]
        ("rpc_timeout", {"options": ClientOptions(rpc_timeout=0)}),
        ("record_timeout", {"options": ClientOptions(record_timeout=-1)}),
        ("shutdown_timeout", {"options": ClientOptions(shutdown_timeout=-1)}),
        ("max_background_records", {"options": ClientOptions(max_background_records=-1)}),
        ("max_background_records", {"options": ClientOptions(max_background_records=1.5)}),  # type: ignore[arg-type]
        ("keepalive_interval", {"options": ClientOptions(keepalive_interval=0)}),
        ("keepalive_timeout", {"options": ClientOptions(keepalive_timeout="10")}),  # type: ignore[arg-type]
        ("max_reconnect_backoff", {"options": ClientOptions(max_reconnect_backoff=0)}),
    ],
)
@pytest.mark.parametrize("client_type", [client.Client, client.AsyncClient])
def test_a_client_is_not_made_of_what_is_wrong(
    client_type: Any, field: str, given: dict[str, Any]
) -> None:
    arguments = {"target": "localhost:1", "credentials": INSECURE, **given}
    with pytest.raises(InvalidField) as error:
        client_type(**arguments)
    assert [violation.field for violation in error.value.violations] == [field]


def test_secure_credentials_are_taken() -> None:
    client.Client("localhost:1", grpc.ssl_channel_credentials())
    client.AsyncClient("localhost:1", grpc.ssl_channel_credentials())


@pytest.mark.parametrize(
    ("field", "key", "include_body"),
    [("key", None, False), ("idempotency_key", Key("acme", ""), False), ("include_body", KEY, 1)],
)
def test_lookup_names_what_is_wrong(
    service: Service, field: str, key: Any, include_body: Any
) -> None:
    async def lookup() -> Any:
        async with client.AsyncClient(service.target, INSECURE) as runner:
            return await runner.lookup(key, include_body=include_body)

    with service.client() as runner, pytest.raises(InvalidField) as error:
        runner.lookup(key, include_body=include_body)
    assert [violation.field for violation in error.value.violations] == [field]
    with pytest.raises(InvalidField):
        asyncio.run(lookup())
    assert service.calls == []


def test_spans_are_timedeltas_or_seconds(service: Service) -> None:
    with service.client() as runner:
        for ttl, lease in ((120, 1.5), (timedelta(minutes=2), timedelta(milliseconds=1500))):
            options = RunOptions(ttl=ttl, lease_duration=lease)
            runner.run_once(
                KEY, REQUEST, on_lease_expiry=TAKE_OVER, fn=lambda _: DONE, options=options
            )
    for request in service.requests("Begin"):
        assert (request.ttl.seconds, request.ttl.nanos) == (120, 0)
        assert request.lease_duration.ToMilliseconds() == 1500


def test_a_start_without_time_is_refused() -> None:
    with pytest.raises(client.InvalidField) as error:
        FakeRunner().run_once(
            client.Key("m", "k"),
            client.Request("o", client.Payload(b"")),
            on_lease_expiry=client.OnLeaseExpiry.TAKE_OVER,
            fn=lambda _: client.WorkResult.unknown("", ""),
            options=client.RunOptions(start_timeout=0),
        )
    assert [violation.field for violation in error.value.violations] == ["start_timeout"]
