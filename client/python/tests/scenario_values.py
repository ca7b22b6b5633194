"""Between the scenarios' JSON and this client's values."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import datetime
from typing import Any, Callable, Optional

import idempotency_client as client

JsonObject = dict[str, Any]


class NamedError(Exception):
    """An error of the test's own, that carries a name for `classify`."""

    def __init__(self, name: str) -> None:
        super().__init__("4111 1111 1111 1111: never to be sent anywhere")
        self.name = name


class Crash(BaseException):
    """What no ordinary code catches."""


class Call:
    """One run_once of a scenario: what `fn` saw, how often it ran, and what it came to."""

    def __init__(self) -> None:
        self.runs = 0
        self.attempt: Optional[client.Attempt | client.AsyncAttempt] = None
        self.stop_reason = "none"
        self.report: JsonObject = {}

    def finish(self, end: Any) -> None:
        """`end` is the result, or what run_once raised."""
        self.report = {"ran": self.runs > 0, "runs": self.runs, **report_of(end)}
        if self.attempt is not None:
            self.report["attempt"] = self._attempt(self.attempt)

    def _attempt(self, attempt: client.Attempt | client.AsyncAttempt) -> JsonObject:
        report: JsonObject = {
            "attempt_number": attempt.attempt_number,
            "unknown_attempts": attempt.unknown_attempts,
            "repeated": attempt.repeated,
            "unprotected": attempt.unprotected,
            "downstream_key": attempt.downstream_key,
            "fencing_token": attempt.fencing_token,
            "record_id": attempt.record_id,
            "on_lease_expiry": attempt.on_lease_expiry.value,
            "stop_reason": self.stop_reason,
        }
        previous = attempt.previous_attempt
        if previous is not None:
            report["previous_attempt"] = {"attempt_number": previous.attempt_number}
            if previous.failure is not None:
                disposition = previous.failure.disposition.value
                report["previous_attempt"]["disposition"] = disposition
        return report


class HookLog:
    """What the hooks were told."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.retries: dict[str, int] = {}
        self.unprotected = 0
        self.refreshes = 0

    def hooks(self) -> client.Hooks:
        return client.Hooks(
            on_outcome_not_recorded=lambda _key, _work, error: self.lost.append(error.kind.value),
            on_retry=lambda rpc, _error: self.retries.update({rpc: self.retries.get(rpc, 0) + 1}),
            on_unprotected=self._on_unprotected,
            refresh_credentials=self._refresh,
        )

    def _on_unprotected(self, _key: client.Key, _error: client.IdempotencyError) -> None:
        self.unprotected += 1

    def _refresh(self) -> None:
        self.refreshes += 1

    def report(self, unprotected_runs: int) -> JsonObject:
        return {
            "outcome_not_recorded": self.lost,
            "unprotected": self.unprotected,
            "retries": self.retries,
            "refreshes": self.refreshes,
            "unprotected_runs": unprotected_runs,
        }


def seconds(millis: Any) -> float:
    return float(millis) / 1000


def client_options(given: JsonObject, hooks: client.Hooks) -> client.ClientOptions:
    options = client.ClientOptions(hooks=hooks)
    for name, value in given.items():
        assert name.endswith("_ms"), name
        spans: Any = {name[: -len("_ms")]: seconds(value)}
        options = replace(options, **spans)
    return options


def run_options(given: JsonObject) -> client.RunOptions:
    options = client.RunOptions()
    for name, value in given.items():
        if name == "classify":
            options = replace(options, classify=classify_by(value))
        elif name == "on_unavailable":
            options = replace(options, on_unavailable=client.OnUnavailable[value])
        elif name == "labels":
            options = replace(options, labels=value)
        elif name == "deadline_ms":
            options = replace(options, timeout=seconds(value))
        else:
            assert name.endswith("_ms"), name
            spans: Any = {name[: -len("_ms")]: seconds(value)}
            options = replace(options, **spans)
    return options


def classify_by(names: JsonObject) -> Callable[[BaseException], client.Disposition]:
    def classify(error: BaseException) -> client.Disposition:
        name = names.get(error.name) if isinstance(error, NamedError) else None
        return client.Disposition.UNKNOWN if name is None else client.Disposition(name)

    return classify


def expiry_of(given: Any) -> Any:
    """As it is if it is none: the client has to say so."""
    known = client.OnLeaseExpiry.__members__
    return known[given] if isinstance(given, str) and given in known else given


def request_of(given: JsonObject) -> client.Request:
    if "fingerprint_base64" in given:
        fingerprint = client.Fingerprint(
            base64.b64decode(given["fingerprint_base64"]), given["fingerprint_scheme"]
        )
        return client.Request(given["operation"], fingerprint)
    payload = given["payload"]
    return client.Request(
        given["operation"],
        client.Payload(bytes_of(payload["data"]), payload.get("content_type", "")),
    )


def bytes_of(given: Any) -> bytes:
    if isinstance(given, dict):
        return base64.b64decode(given["base64"])
    assert isinstance(given, str)
    return given.encode()


def text_of(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def work_of(given: JsonObject) -> client.WorkResult:
    kind = given["kind"]
    outcome = outcome_of(given["outcome"]) if "outcome" in given else None
    if kind == "completed":
        assert outcome is not None
        return client.WorkResult.completed(outcome)
    if kind == "final":
        return client.WorkResult.final(given["code"], given["message"], outcome)
    make = {
        "not_applied": client.WorkResult.not_applied,
        "unknown": client.WorkResult.unknown,
    }[kind]
    return make(given["code"], given["message"])


def outcome_of(given: JsonObject) -> client.Outcome:
    body = given.get("body")
    return client.Outcome(
        status_code=given.get("status_code", 0),
        headers=[(name, bytes_of(value)) for name, value in given.get("headers", [])],
        content_type=given.get("content_type", ""),
        body=None if body is None else bytes_of(body),
        response_id=given.get("response_id", ""),
        body_omitted=given.get("body_omitted", False),
        body_size=given.get("body_size"),
        body_sha256=bytes.fromhex(given.get("body_sha256_hex", "")),
    )


def report_of(end: Any) -> JsonObject:  # noqa: C901
    if isinstance(end, client.IdempotencyError):
        return report_of_error(end)
    if isinstance(end, BaseException):
        return report_of_crash(end)
    report: JsonObject = {"result": type(end).__name__}
    for name in ("record_id", "attempt_number", "recorded_without_body"):
        if hasattr(end, name):
            report[name] = getattr(end, name)
    for name in ("start_time", "finish_time"):
        if hasattr(end, name):
            report[name] = instant(getattr(end, name))
    if isinstance(end, client.InProgress):
        report["retry_after_ms"] = round(end.retry_after.total_seconds() * 1000)
    if isinstance(end, client.Unprotected):
        report["work"] = report_of_work(end.work)
    if isinstance(end, (client.Failed, client.Unprotected)):
        report["threw"] = end.exception is not None
    if getattr(end, "outcome", None) is not None:
        report["outcome"] = report_of_outcome(end.outcome)
    if getattr(end, "failure", None) is not None:
        report["failure"] = report_of_failure(end.failure)
    return report


def report_of_crash(end: BaseException) -> JsonObject:
    """What came through run_once: it was recorded as unknown, as the host then looks up."""
    return {"threw": True, "failure": {"disposition": "unknown"}, "crash": type(end).__name__}


def report_of_error(error: client.IdempotencyError) -> JsonObject:
    report: JsonObject = {
        "result": "Error",
        "threw": error.exception is not None,
        "error": {
            "kind": error.kind.value,
            "reason": error.reason,
            "violations": [violation.field for violation in error.violations],
            "metadata": error.metadata,
            "still_recording": error.still_recording,
        },
    }
    if error.retry_after is not None:
        report["retry_after_ms"] = round(error.retry_after.total_seconds() * 1000)
    if error.work is not None:
        report["work"] = report_of_work(error.work)
    return report


def report_of_work(work: client.WorkResult) -> JsonObject:
    if work.outcome is not None:
        return {"kind": "completed", "outcome": report_of_outcome(work.outcome)}
    assert work.failure is not None
    failure = report_of_failure(work.failure)
    return {"kind": failure.pop("disposition"), **failure}


def report_of_failure(failure: client.Failure) -> JsonObject:
    report: JsonObject = {
        "disposition": failure.disposition.value,
        "code": failure.code,
        "message": failure.message,
    }
    if failure.outcome is not None:
        report["outcome"] = report_of_outcome(failure.outcome)
    return report


def report_of_outcome(outcome: client.Outcome) -> JsonObject:
    report: JsonObject = {
        "status_code": outcome.status_code,
        "headers": [[name, text_of(value)] for name, value in outcome.headers],
        "content_type": outcome.content_type,
        "response_id": outcome.response_id,
        "body_omitted": outcome.body_omitted,
    }
    if outcome.body is not None:
        report["body"] = text_of(outcome.body)
    if outcome.body_size is not None:
        report["body_size"] = outcome.body_size
    if outcome.body_sha256:
        report["body_sha256_hex"] = outcome.body_sha256.hex()
    return report


def report_of_record(record: client.Record) -> JsonObject:
    report: JsonObject = {
        "state": record.state.value,
        "operation": record.operation,
        "record_id": record.record_id,
        "attempt_number": record.attempt_number,
        "unknown_attempts": record.unknown_attempts,
        "on_lease_expiry": record.on_lease_expiry.value,
        "labels": dict(record.labels),
    }
    if record.outcome is not None:
        report["outcome"] = report_of_outcome(record.outcome)
    if record.failure is not None:
        report["failure"] = report_of_failure(record.failure)
    return report


def instant(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
