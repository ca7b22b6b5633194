"""Does a piece of work once, however often it is asked for: client of the idempotency service.

    with Client("dns:///idempotency:50051", credentials) as client:
        result = client.run_once(
            Key(merchant, key),
            Request("POST /payments", Payload(body, "application/json")),
            on_lease_expiry=OnLeaseExpiry.TAKE_OVER,
            fn=pay,
        )

What it sees to, so that callers cannot get it wrong:

- An attempt has an id from the system's random source, kept over all tries of the same call, so
  that a lost answer is safe to repeat.
- Fail closed: without a `started` from the service `fn` does not run.
- The lease is renewed at a third of it; `fn` is asked to stop when it is lost, or its local
  deadline passes (counted from when the last accepted call was sent).
- What `fn` came to is recorded whether or not the caller still waits, with identical bytes, and
  repeated until it is known to be recorded or refused.
- Everything that is not known is recorded as unknown.
- A caller that gives up before `fn` ran releases the key.
"""

from .aio import AsyncClient
from .attempt import AsyncAttempt, Attempt
from .client import INSECURE, Client
from .errors import (
    Cancelled,
    DeadlineExceeded,
    ErrorKind,
    FieldViolation,
    IdempotencyError,
    InProgressError,
    Internal,
    InvalidField,
    KeyReused,
    LeaseLost,
    NeedsResolution,
    OutcomeConflict,
    OutcomeNotRecorded,
    PermissionDenied,
    RateLimited,
    RecordNotFound,
    RequestTooLarge,
    ResultError,
    Unauthenticated,
    Unavailable,
    WorkFailedError,
)
from .http import HttpAnswer, http_answer
from .keys import business_key, downstream_key_for, random_request_id
from .options import (
    CancelToken,
    ClientOptions,
    Hooks,
    OnUnavailable,
    RunOptions,
    StopReason,
)
from .runner import AsyncRunner, Runner
from .types import (
    Completed,
    Disposition,
    Failed,
    Failure,
    Fingerprint,
    InProgress,
    Key,
    OnLeaseExpiry,
    Outcome,
    Payload,
    PreviousAttempt,
    Record,
    RecordState,
    Replayed,
    Request,
    RunResult,
    Unprotected,
    WorkResult,
    outcome_of,
)

__version__ = "0.1.0"

__all__ = [
    "INSECURE",
    "AsyncAttempt",
    "AsyncClient",
    "AsyncRunner",
    "Attempt",
    "CancelToken",
    "Cancelled",
    "Client",
    "ClientOptions",
    "Completed",
    "DeadlineExceeded",
    "Disposition",
    "ErrorKind",
    "Failed",
    "Failure",
    "FieldViolation",
    "Fingerprint",
    "Hooks",
    "HttpAnswer",
    "IdempotencyError",
    "InProgress",
    "InProgressError",
    "Internal",
    "InvalidField",
    "Key",
    "KeyReused",
    "LeaseLost",
    "NeedsResolution",
    "OnLeaseExpiry",
    "OnUnavailable",
    "Outcome",
    "OutcomeConflict",
    "OutcomeNotRecorded",
    "Payload",
    "PermissionDenied",
    "PreviousAttempt",
    "RateLimited",
    "Record",
    "RecordNotFound",
    "RecordState",
    "Replayed",
    "Request",
    "RequestTooLarge",
    "ResultError",
    "RunOptions",
    "RunResult",
    "Runner",
    "StopReason",
    "Unauthenticated",
    "Unavailable",
    "Unprotected",
    "WorkFailedError",
    "WorkResult",
    "business_key",
    "downstream_key_for",
    "http_answer",
    "outcome_of",
    "random_request_id",
]
