from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_KEY_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_OUTCOME_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_ALREADY_FINISHED: _ClassVar[ErrorReason]
    ERROR_REASON_NEEDS_RESOLUTION: _ClassVar[ErrorReason]
    ERROR_REASON_RECORD_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_CREDENTIALS_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_CREDENTIALS_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_MERCHANT_FORBIDDEN: _ClassVar[ErrorReason]
    ERROR_REASON_MERCHANT_RATE_LIMITED: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_SCHEMA_INCOMPATIBLE: _ClassVar[ErrorReason]
    ERROR_REASON_COMMIT_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_KEY_REUSED: ErrorReason
ERROR_REASON_LEASE_LOST: ErrorReason
ERROR_REASON_OUTCOME_CONFLICT: ErrorReason
ERROR_REASON_ALREADY_FINISHED: ErrorReason
ERROR_REASON_NEEDS_RESOLUTION: ErrorReason
ERROR_REASON_RECORD_NOT_FOUND: ErrorReason
ERROR_REASON_CREDENTIALS_MISSING: ErrorReason
ERROR_REASON_CREDENTIALS_INVALID: ErrorReason
ERROR_REASON_MERCHANT_FORBIDDEN: ErrorReason
ERROR_REASON_MERCHANT_RATE_LIMITED: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_SCHEMA_INCOMPATIBLE: ErrorReason
ERROR_REASON_COMMIT_UNKNOWN: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
