from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeaseExpiryAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_EXPIRY_ACTION_UNSPECIFIED: _ClassVar[LeaseExpiryAction]
    LEASE_EXPIRY_ACTION_TAKE_OVER: _ClassVar[LeaseExpiryAction]
    LEASE_EXPIRY_ACTION_HOLD: _ClassVar[LeaseExpiryAction]

class FailureDisposition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_DISPOSITION_UNSPECIFIED: _ClassVar[FailureDisposition]
    FAILURE_DISPOSITION_NOT_APPLIED: _ClassVar[FailureDisposition]
    FAILURE_DISPOSITION_FINAL: _ClassVar[FailureDisposition]
    FAILURE_DISPOSITION_UNKNOWN: _ClassVar[FailureDisposition]

class RecordState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_STATE_UNSPECIFIED: _ClassVar[RecordState]
    RECORD_STATE_IN_PROGRESS: _ClassVar[RecordState]
    RECORD_STATE_COMPLETED: _ClassVar[RecordState]
    RECORD_STATE_FAILED: _ClassVar[RecordState]
    RECORD_STATE_RELEASED: _ClassVar[RecordState]
    RECORD_STATE_ABANDONED: _ClassVar[RecordState]
LEASE_EXPIRY_ACTION_UNSPECIFIED: LeaseExpiryAction
LEASE_EXPIRY_ACTION_TAKE_OVER: LeaseExpiryAction
LEASE_EXPIRY_ACTION_HOLD: LeaseExpiryAction
FAILURE_DISPOSITION_UNSPECIFIED: FailureDisposition
FAILURE_DISPOSITION_NOT_APPLIED: FailureDisposition
FAILURE_DISPOSITION_FINAL: FailureDisposition
FAILURE_DISPOSITION_UNKNOWN: FailureDisposition
RECORD_STATE_UNSPECIFIED: RecordState
RECORD_STATE_IN_PROGRESS: RecordState
RECORD_STATE_COMPLETED: RecordState
RECORD_STATE_FAILED: RecordState
RECORD_STATE_RELEASED: RecordState
RECORD_STATE_ABANDONED: RecordState

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("status_code", "headers", "content_type", "body", "response_id", "body_omitted", "body_size", "body_sha256")
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_OMITTED_FIELD_NUMBER: _ClassVar[int]
    BODY_SIZE_FIELD_NUMBER: _ClassVar[int]
    BODY_SHA256_FIELD_NUMBER: _ClassVar[int]
    status_code: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    content_type: str
    body: bytes
    response_id: str
    body_omitted: bool
    body_size: int
    body_sha256: bytes
    def __init__(self, status_code: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., content_type: _Optional[str] = ..., body: _Optional[bytes] = ..., response_id: _Optional[str] = ..., body_omitted: bool = ..., body_size: _Optional[int] = ..., body_sha256: _Optional[bytes] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("disposition", "code", "message", "outcome")
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    disposition: FailureDisposition
    code: str
    message: str
    outcome: Outcome
    def __init__(self, disposition: _Optional[_Union[FailureDisposition, str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ...) -> None: ...

class PreviousAttempt(_message.Message):
    __slots__ = ("attempt_number", "start_time", "lease_expire_time", "failure")
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    attempt_number: int
    start_time: _timestamp_pb2.Timestamp
    lease_expire_time: _timestamp_pb2.Timestamp
    failure: Failure
    def __init__(self, attempt_number: _Optional[int] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class RefusedOutcome(_message.Message):
    __slots__ = ("status_code", "response_id", "content_sha256", "refuse_time", "attempt_number")
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_SHA256_FIELD_NUMBER: _ClassVar[int]
    REFUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    status_code: int
    response_id: str
    content_sha256: bytes
    refuse_time: _timestamp_pb2.Timestamp
    attempt_number: int
    def __init__(self, status_code: _Optional[int] = ..., response_id: _Optional[str] = ..., content_sha256: _Optional[bytes] = ..., refuse_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt_number: _Optional[int] = ...) -> None: ...
