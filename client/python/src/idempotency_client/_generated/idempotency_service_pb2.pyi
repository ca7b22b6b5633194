from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from . import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Payload(_message.Message):
    __slots__ = ("data", "content_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    content_type: str
    def __init__(self, data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class BeginRequest(_message.Message):
    __slots__ = ("merchant_id", "idempotency_key", "operation", "attempt_id", "fingerprint", "payload", "fingerprint_scheme", "ttl", "lease_duration", "wait_timeout", "on_lease_expiry", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MERCHANT_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_SCHEME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_LEASE_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    merchant_id: str
    idempotency_key: str
    operation: str
    attempt_id: str
    fingerprint: bytes
    payload: Payload
    fingerprint_scheme: int
    ttl: _duration_pb2.Duration
    lease_duration: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    on_lease_expiry: _record_pb2.LeaseExpiryAction
    labels: _containers.ScalarMap[str, str]
    def __init__(self, merchant_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., operation: _Optional[str] = ..., attempt_id: _Optional[str] = ..., fingerprint: _Optional[bytes] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ..., fingerprint_scheme: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_lease_expiry: _Optional[_Union[_record_pb2.LeaseExpiryAction, str]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BeginResponse(_message.Message):
    __slots__ = ("record_id", "on_lease_expiry", "started", "replay", "in_progress")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    ON_LEASE_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    on_lease_expiry: _record_pb2.LeaseExpiryAction
    started: Started
    replay: Replay
    in_progress: InProgress
    def __init__(self, record_id: _Optional[str] = ..., on_lease_expiry: _Optional[_Union[_record_pb2.LeaseExpiryAction, str]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., replay: _Optional[_Union[Replay, _Mapping]] = ..., in_progress: _Optional[_Union[InProgress, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("attempt_id", "attempt_number", "fencing_token", "lease_remaining", "lease_expire_time", "downstream_key", "unknown_attempts", "previous_attempt", "repeated")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_KEY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    attempt_number: int
    fencing_token: int
    lease_remaining: _duration_pb2.Duration
    lease_expire_time: _timestamp_pb2.Timestamp
    downstream_key: str
    unknown_attempts: int
    previous_attempt: _record_pb2.PreviousAttempt
    repeated: bool
    def __init__(self, attempt_id: _Optional[str] = ..., attempt_number: _Optional[int] = ..., fencing_token: _Optional[int] = ..., lease_remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., downstream_key: _Optional[str] = ..., unknown_attempts: _Optional[int] = ..., previous_attempt: _Optional[_Union[_record_pb2.PreviousAttempt, _Mapping]] = ..., repeated: bool = ...) -> None: ...

class Replay(_message.Message):
    __slots__ = ("outcome", "failure", "attempt_number", "start_time", "finish_time")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    outcome: _record_pb2.Outcome
    failure: _record_pb2.Failure
    attempt_number: int
    start_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[_record_pb2.Outcome, _Mapping]] = ..., failure: _Optional[_Union[_record_pb2.Failure, _Mapping]] = ..., attempt_number: _Optional[int] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class InProgress(_message.Message):
    __slots__ = ("retry_after", "lease_remaining", "attempt_number", "start_time")
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    retry_after: _duration_pb2.Duration
    lease_remaining: _duration_pb2.Duration
    attempt_number: int
    start_time: _timestamp_pb2.Timestamp
    def __init__(self, retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease_remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempt_number: _Optional[int] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("merchant_id", "idempotency_key", "attempt_id", "outcome")
    MERCHANT_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    merchant_id: str
    idempotency_key: str
    attempt_id: str
    outcome: _record_pb2.Outcome
    def __init__(self, merchant_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt_id: _Optional[str] = ..., outcome: _Optional[_Union[_record_pb2.Outcome, _Mapping]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("record_id", "already_recorded", "finish_time")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    ALREADY_RECORDED_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    already_recorded: bool
    finish_time: _timestamp_pb2.Timestamp
    def __init__(self, record_id: _Optional[str] = ..., already_recorded: bool = ..., finish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("merchant_id", "idempotency_key", "attempt_id", "failure")
    MERCHANT_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    merchant_id: str
    idempotency_key: str
    attempt_id: str
    failure: _record_pb2.Failure
    def __init__(self, merchant_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt_id: _Optional[str] = ..., failure: _Optional[_Union[_record_pb2.Failure, _Mapping]] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ("record_id", "already_recorded", "finish_time")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    ALREADY_RECORDED_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    already_recorded: bool
    finish_time: _timestamp_pb2.Timestamp
    def __init__(self, record_id: _Optional[str] = ..., already_recorded: bool = ..., finish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("merchant_id", "idempotency_key", "attempt_id", "lease_duration")
    MERCHANT_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    merchant_id: str
    idempotency_key: str
    attempt_id: str
    lease_duration: _duration_pb2.Duration
    def __init__(self, merchant_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt_id: _Optional[str] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("record_id", "lease_remaining", "lease_expire_time")
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    lease_remaining: _duration_pb2.Duration
    lease_expire_time: _timestamp_pb2.Timestamp
    def __init__(self, record_id: _Optional[str] = ..., lease_remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("merchant_id", "idempotency_key", "include_outcome")
    MERCHANT_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    merchant_id: str
    idempotency_key: str
    include_outcome: bool
    def __init__(self, merchant_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., include_outcome: bool = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("record_id", "operation", "state", "expired", "create_time", "start_time", "finish_time", "expire_time", "lease_expire_time", "lease_remaining", "on_lease_expiry", "attempt_number", "unknown_attempts", "fencing_token", "downstream_key", "fingerprint_scheme", "labels", "outcome", "failure", "previous_attempt", "refused_outcome")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_FIELD_NUMBER: _ClassVar[int]
    ON_LEASE_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_KEY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_SCHEME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    record_id: str
    operation: str
    state: _record_pb2.RecordState
    expired: bool
    create_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    lease_expire_time: _timestamp_pb2.Timestamp
    lease_remaining: _duration_pb2.Duration
    on_lease_expiry: _record_pb2.LeaseExpiryAction
    attempt_number: int
    unknown_attempts: int
    fencing_token: int
    downstream_key: str
    fingerprint_scheme: int
    labels: _containers.ScalarMap[str, str]
    outcome: _record_pb2.Outcome
    failure: _record_pb2.Failure
    previous_attempt: _record_pb2.PreviousAttempt
    refused_outcome: _record_pb2.RefusedOutcome
    def __init__(self, record_id: _Optional[str] = ..., operation: _Optional[str] = ..., state: _Optional[_Union[_record_pb2.RecordState, str]] = ..., expired: bool = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease_remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_lease_expiry: _Optional[_Union[_record_pb2.LeaseExpiryAction, str]] = ..., attempt_number: _Optional[int] = ..., unknown_attempts: _Optional[int] = ..., fencing_token: _Optional[int] = ..., downstream_key: _Optional[str] = ..., fingerprint_scheme: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., outcome: _Optional[_Union[_record_pb2.Outcome, _Mapping]] = ..., failure: _Optional[_Union[_record_pb2.Failure, _Mapping]] = ..., previous_attempt: _Optional[_Union[_record_pb2.PreviousAttempt, _Mapping]] = ..., refused_outcome: _Optional[_Union[_record_pb2.RefusedOutcome, _Mapping]] = ...) -> None: ...
