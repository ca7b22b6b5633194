"""Arguments, checked and with their defaults: what the rest works with."""

from __future__ import annotations

import inspect
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional

from ._check import check_bytes, check_int, check_text, invalid, seconds_of
from ._clock import now
from ._generated import idempotency_service_pb2 as service
from ._wire import begin_request
from .options import CancelToken, ClientOptions, Hooks, OnUnavailable, RunOptions, StopReason
from .types import Disposition, Fingerprint, Key, OnLeaseExpiry, Payload, Request

# The service cuts clients off that ping more often.
_SHORTEST_PING_INTERVAL = 10.0
# How soon a replica that restarts is tried again.
_FIRST_RECONNECT_MS = 200
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_LONGEST_CHANNEL_SPAN = 24 * 3600.0


@dataclass(frozen=True)
class Config:
    """ClientOptions in seconds."""

    rpc_timeout: float
    record_timeout: float
    shutdown_timeout: float
    max_background_records: int
    hooks: Hooks
    channel_arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Plan:
    """One call of run_once. `begin` has the attempt's id, made of the system's random source."""

    key: Key
    begin: service.BeginRequest
    hold: bool
    wait_timeout: float
    start_timeout: float
    max_duration: float
    may_run_unprotected: bool
    classify: Optional[Callable[[BaseException], Disposition]]


class Caller:
    """The one who waits for a call: when it wants no answer any more."""

    def __init__(
        self, timeout: Optional[float], is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        self.deadline = float("inf") if timeout is None else now() + timeout
        self._is_cancelled = is_cancelled

    def while_not(self, is_over: Callable[[], bool]) -> Caller:
        """The same, who is gone as well when something is over."""
        caller = Caller(None, lambda: self._is_cancelled() or is_over())
        caller.deadline = self.deadline
        return caller

    def why_gone(self) -> StopReason:
        """NONE while it waits, then CANCELLED or DEADLINE."""
        if self._is_cancelled():
            return StopReason.CANCELLED
        return StopReason.DEADLINE if now() >= self.deadline else StopReason.NONE

    @property
    def is_gone(self) -> bool:
        """Whether it has left."""
        return self.why_gone() is not StopReason.NONE


def config_of(options: ClientOptions) -> Config:
    """Raises InvalidField for an option that is wrong."""
    if not isinstance(options, ClientOptions):
        raise invalid("options", "must be ClientOptions")
    if not isinstance(options.hooks, Hooks):
        raise invalid("hooks", "must be Hooks")
    for name, hook in vars(options.hooks).items():
        if hook is not None and not callable(hook):
            raise invalid(f"hooks.{name}", "must be callable")
    check_int("max_background_records", options.max_background_records, bits=63)
    if options.max_background_records < 0:
        raise invalid("max_background_records", "must not be negative")
    return Config(
        rpc_timeout=seconds_of("rpc_timeout", options.rpc_timeout, positive=True),
        record_timeout=seconds_of("record_timeout", options.record_timeout),
        shutdown_timeout=seconds_of("shutdown_timeout", options.shutdown_timeout),
        max_background_records=options.max_background_records,
        hooks=options.hooks,
        channel_arguments=_channel_arguments(options),
    )


def _channel_arguments(options: ClientOptions) -> tuple[tuple[str, Any], ...]:
    def millis(field: str, value: Any) -> int:
        seconds = seconds_of(field, value, positive=True)
        return max(1, round(min(seconds, _LONGEST_CHANNEL_SPAN) * 1000))

    interval = millis("keepalive_interval", options.keepalive_interval)
    longest_backoff = millis("max_reconnect_backoff", options.max_reconnect_backoff)
    return (
        ("grpc.keepalive_time_ms", max(interval, round(_SHORTEST_PING_INTERVAL * 1000))),
        ("grpc.keepalive_timeout_ms", millis("keepalive_timeout", options.keepalive_timeout)),
        # An idle connection that a firewall forgot is found out before the next payment needs it.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # This library repeats calls itself, because it knows which may be repeated how.
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
        ("grpc.min_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", max(_FIRST_RECONNECT_MS, longest_backoff)),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        # Otherwise channels with equal arguments share their connections.
        ("grpc.use_local_subchannel_pool", 1),
    )


def check_key(key: Any) -> Key:
    """Raises InvalidField for a key that is wrong; the service judges the rest of it."""
    if not isinstance(key, Key):
        raise invalid("key", "must be a Key")
    check_text("merchant_id", key.merchant_id, required=True)
    check_text("idempotency_key", key.idempotency_key, required=True)
    return key


def lookup_request(key: Any, include_body: Any) -> bytes:
    """Raises InvalidField as check_key."""
    check_key(key)
    if not isinstance(include_body, bool):
        raise invalid("include_body", "must be a bool")
    return service.LookupRequest(
        merchant_id=key.merchant_id,
        idempotency_key=key.idempotency_key,
        include_outcome=include_body,
    ).SerializeToString()


def caller_timeout(options: Any) -> Optional[float]:
    """The caller's own patience in seconds; what is not above 0 has passed already."""
    if not isinstance(options, RunOptions):
        raise invalid("options", "must be RunOptions")
    try:
        return None if options.timeout is None else max(0.0, _signed_seconds(options.timeout))
    except OverflowError:
        raise invalid("timeout", "is too long") from None


def _signed_seconds(span: Any) -> float:
    if isinstance(span, (int, float)) and not isinstance(span, bool) and span < 0:
        return 0.0
    if hasattr(span, "total_seconds") and span.total_seconds() < 0:
        return 0.0
    return seconds_of("timeout", span)


def plan_of(
    key: Any, request: Any, on_lease_expiry: Any, fn: Any, options: Any, *, takes_coroutines: bool
) -> Plan:
    """Raises InvalidField, with the field's name, for what the client can see to be wrong."""
    if not callable(fn):
        raise invalid("fn", "must be callable")
    if not takes_coroutines and inspect.iscoroutinefunction(fn):
        raise invalid("fn", "must be a plain function; AsyncClient takes coroutines")
    check_key(key)
    _check_request(request)
    if not isinstance(on_lease_expiry, OnLeaseExpiry):
        raise invalid("on_lease_expiry", "must be an OnLeaseExpiry; there is no default")
    hold = on_lease_expiry is OnLeaseExpiry.HOLD
    _check_options(options, hold=hold, takes_coroutines=takes_coroutines)
    ttl_given = key.ttl if options.ttl is None else options.ttl
    ttl = None if ttl_given is None else seconds_of("ttl", ttl_given)
    lease = options.lease_duration
    begin = begin_request(
        key,
        request,
        on_lease_expiry,
        # uuid4 takes all its random bits from os.urandom.
        str(uuid.uuid4()),
        ttl=ttl,
        lease_duration=None if lease is None else seconds_of("lease_duration", lease),
        labels=_labels_of(options.labels),
    )
    return Plan(
        key=key,
        begin=begin,
        hold=hold,
        wait_timeout=seconds_of("wait_timeout", options.wait_timeout),
        start_timeout=seconds_of("start_timeout", options.start_timeout, positive=True),
        max_duration=seconds_of("max_duration", options.max_duration, positive=True),
        may_run_unprotected=options.on_unavailable is OnUnavailable.RUN_UNPROTECTED,
        classify=options.classify,
    )


def _check_options(options: Any, *, hold: bool, takes_coroutines: bool) -> None:
    if not isinstance(options, RunOptions):
        raise invalid("options", "must be RunOptions")
    if not isinstance(options.on_unavailable, OnUnavailable):
        raise invalid("on_unavailable", "must be an OnUnavailable")
    if options.on_unavailable is OnUnavailable.RUN_UNPROTECTED and hold:
        raise invalid("on_unavailable", "who cannot pay twice (HOLD) cannot run unprotected")
    if options.classify is not None and not callable(options.classify):
        raise invalid("classify", "must be callable")
    if options.cancel is not None and takes_coroutines:
        raise invalid("cancel", "is of the synchronous client; here cancel the task")
    if options.cancel is not None and not isinstance(options.cancel, CancelToken):
        raise invalid("cancel", "must be a CancelToken")


def _check_request(request: Any) -> None:
    if not isinstance(request, Request):
        raise invalid("request", "must be a Request")
    check_text("operation", request.operation)
    content = request.content
    if isinstance(content, Payload):
        check_bytes("payload.data", content.data)
        check_text("payload.content_type", content.content_type)
    elif isinstance(content, Fingerprint):
        check_bytes("fingerprint", content.sha256)
        check_int("fingerprint_scheme", content.scheme, bits=32)
    else:
        raise invalid("payload", "must be a Payload or a Fingerprint")


def _labels_of(labels: Any) -> Mapping[str, str]:
    if not isinstance(labels, Mapping):
        raise invalid("labels", "must be a mapping of str to str")
    for name, value in labels.items():
        check_text("labels", name)
        check_text(f'labels["{name}"]', value)
    return labels
