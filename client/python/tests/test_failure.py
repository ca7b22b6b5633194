"""What gRPC's statuses and their details mean."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from idempotency_client import ErrorKind
from idempotency_client._failure import CallFailure, failure_of
from idempotency_client._generated import error_pb2

CODE = grpc.StatusCode


def details(*messages: Any) -> bytes:
    status = status_pb2.Status(code=1)
    for message in messages:
        packed = AnyMessage()
        packed.Pack(message)
        status.details.append(packed)
    return status.SerializeToString()


def failure(code: grpc.StatusCode, *messages: Any, pushback: Any = None) -> CallFailure:
    trailers: list[tuple[str, Any]] = [("grpc-status-details-bin", details(*messages))]
    if pushback is not None:
        trailers.append(("grpc-retry-pushback-ms", pushback))
    return failure_of(code, "words", trailers)


def info(reason: str, domain: str = "idempotency.v1", **metadata: str) -> Any:
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)


REASONS = [
    name[len("ERROR_REASON_") :]
    for name in error_pb2.ErrorReason.keys()  # noqa: SIM118 - it is no mapping
    if name != "ERROR_REASON_UNSPECIFIED"
]


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_the_api_has_a_name(reason: str) -> None:
    # By a code that says nothing, so that the name is the reason's own.
    kind = failure(CODE.DATA_LOSS, info(reason)).kind
    assert (kind is ErrorKind.INTERNAL) == (reason == "INTERNAL")


@pytest.mark.parametrize("reason", REASONS)
def test_which_reasons_leave_the_effect_unknown(reason: str) -> None:
    may_have_effect = failure(CODE.UNAVAILABLE, info(reason)).may_have_effect
    assert may_have_effect == (reason in ("COMMIT_UNKNOWN", "INTERNAL"))


@pytest.mark.parametrize("code", [code for code in CODE if code is not CODE.OK])
def test_without_a_reason_only_a_message_that_is_too_large_has_no_effect(
    code: grpc.StatusCode,
) -> None:
    assert failure_of(code, "", []).may_have_effect == (code is not CODE.RESOURCE_EXHAUSTED)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (CODE.INVALID_ARGUMENT, ErrorKind.INVALID_FIELD),
        (CODE.RESOURCE_EXHAUSTED, ErrorKind.REQUEST_TOO_LARGE),
        (CODE.UNAUTHENTICATED, ErrorKind.UNAUTHENTICATED),
        (CODE.PERMISSION_DENIED, ErrorKind.PERMISSION_DENIED),
        (CODE.UNAVAILABLE, ErrorKind.UNAVAILABLE),
        (CODE.CANCELLED, ErrorKind.UNAVAILABLE),
        (CODE.DEADLINE_EXCEEDED, ErrorKind.DEADLINE_EXCEEDED),
        (CODE.NOT_FOUND, ErrorKind.RECORD_NOT_FOUND),
        (CODE.ABORTED, ErrorKind.LEASE_LOST),
        (CODE.INTERNAL, ErrorKind.INTERNAL),
        (CODE.UNIMPLEMENTED, ErrorKind.INTERNAL),
        (CODE.UNKNOWN, ErrorKind.INTERNAL),
        (CODE.FAILED_PRECONDITION, ErrorKind.INTERNAL),
    ],
)
def test_codes_name_what_has_no_reason_that_is_known(
    code: grpc.StatusCode, kind: ErrorKind
) -> None:
    assert failure_of(code, "", []).kind is kind
    assert failure(code, info("OF_A_LATER_VERSION")).kind is kind


def test_all_details_are_read() -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="ttl", description="too short")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    found = failure(CODE.INVALID_ARGUMENT, info("INVALID_FIELD", a="b"), bad, retry)
    error = found.error()
    assert error.kind is ErrorKind.INVALID_FIELD
    assert error.reason == "INVALID_FIELD"
    assert error.metadata == {"a": "b"}
    assert [(one.field, one.description) for one in error.violations] == [("ttl", "too short")]
    assert error.retry_after is not None
    assert error.retry_after.total_seconds() == 1.5
    assert error.grpc_code == CODE.INVALID_ARGUMENT.value[0]
    assert error.message == "words"


def test_another_services_reason_is_none_of_ours() -> None:
    found = failure(CODE.UNAVAILABLE, info("OVERLOADED", domain="proxy.example"))
    assert found.reason == ""
    assert found.may_have_effect


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"", "text", b"\x1a\x04\x0a\x00\x12\xff"])
def test_details_that_cannot_be_read_are_left_out(data: Any) -> None:
    found = failure_of(CODE.ABORTED, None, [("grpc-status-details-bin", data)])
    assert found.kind is ErrorKind.LEASE_LOST
    assert found.message == ""


def test_a_detail_that_cannot_be_read_hides_no_other() -> None:
    status = status_pb2.Status()
    broken = status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo")
    broken.value = b"\xff"
    good = status.details.add()
    good.Pack(info("LEASE_LOST"))
    found = failure_of(CODE.ABORTED, "", [("grpc-status-details-bin", status.SerializeToString())])
    assert found.reason == "LEASE_LOST"


@pytest.mark.parametrize(
    ("pushback", "retry_after"), [("0", 0.0), ("250", 0.25), (b"250", 0.25), ("60000", 60.0)]
)
def test_a_pushback_comes_before_retry_info(pushback: Any, retry_after: float) -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1)
    found = failure(CODE.UNAVAILABLE, info("OVERLOADED"), retry, pushback=pushback)
    assert found.retry_after == retry_after
    assert found.is_worth_repeating


@pytest.mark.parametrize("pushback", ["-1", "", "x", "1.5", "+1", " 1", "²", "1" * 16])
def test_a_pushback_that_is_no_number_says_not_to_repeat(pushback: str) -> None:
    found = failure(CODE.UNAVAILABLE, info("OVERLOADED"), pushback=pushback)
    assert found.must_not_retry
    assert not found.is_worth_repeating


@pytest.mark.parametrize("code", [code for code in CODE if code is not CODE.OK])
def test_what_is_worth_repeating(code: grpc.StatusCode) -> None:
    found = failure_of(code, "", [])
    assert found.is_worth_repeating == (code in (CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED))
    refused = (
        CODE.INVALID_ARGUMENT,
        CODE.RESOURCE_EXHAUSTED,
        CODE.FAILED_PRECONDITION,
        CODE.ABORTED,
        CODE.NOT_FOUND,
        CODE.PERMISSION_DENIED,
    )
    assert found.is_worth_recording_again == (code not in refused)


def test_a_merchant_over_its_rate_is_worth_repeating() -> None:
    assert failure(CODE.RESOURCE_EXHAUSTED, info("MERCHANT_RATE_LIMITED")).is_worth_repeating


@pytest.mark.parametrize(
    ("field", "is_too_large"),
    [("outcome.body", True), ("failure.outcome.body", True), ("outcome.headers[0].name", False)],
)
def test_which_violations_are_about_size(field: str, *, is_too_large: bool) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field=field)
    found = failure(CODE.INVALID_ARGUMENT, info("INVALID_FIELD"), bad)
    assert found.is_too_large == is_too_large
    assert not failure(CODE.FAILED_PRECONDITION, bad).is_too_large


def test_never_sent_needs_a_channel_that_was_down_and_no_reason() -> None:
    assert failure_of(CODE.UNAVAILABLE, "", [], was_down=True).was_never_sent
    assert not failure_of(CODE.UNAVAILABLE, "failed to connect", []).was_never_sent
    assert not failure_of(CODE.DEADLINE_EXCEEDED, "", [], was_down=True).was_never_sent
    answered = [("grpc-status-details-bin", details(info("OVERLOADED")))]
    assert not failure_of(CODE.UNAVAILABLE, "", answered, was_down=True).was_never_sent


def test_a_code_that_nobody_knows_is_an_error_all_the_same() -> None:
    assert failure_of(None, None, None).kind is ErrorKind.INTERNAL
    assert failure_of(77, "x", None).may_have_effect


@pytest.mark.parametrize(
    "pushback", ["2147483648", "99999999999999", "-1", "+1", "1.0", " 1", "", "x", "\u0661"]
)
def test_a_pushback_that_is_no_number_of_milliseconds_says_not_to_repeat(pushback: str) -> None:
    assert failure_of(CODE.UNAVAILABLE, "", [("grpc-retry-pushback-ms", pushback)]).must_not_retry


def test_the_longest_pushback_is_read() -> None:
    found = failure_of(CODE.UNAVAILABLE, "", [("grpc-retry-pushback-ms", "0002147483647")])
    assert found.retry_after == 2147483.647
    assert not found.must_not_retry


def test_two_pushbacks_say_not_to_repeat() -> None:
    two = [("grpc-retry-pushback-ms", "1"), ("grpc-retry-pushback-ms", "1")]
    assert failure_of(CODE.UNAVAILABLE, "", two).must_not_retry


def test_a_reason_of_a_later_version_may_have_had_an_effect() -> None:
    assert failure(CODE.UNAVAILABLE, info("OF_A_LATER_VERSION")).may_have_effect
