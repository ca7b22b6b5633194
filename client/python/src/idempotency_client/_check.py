"""What a client can see of a bad argument, before anything is sent."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from .errors import FieldViolation, InvalidField

# The most that google.protobuf.Duration can carry: about 10,000 years.
MOST_SECONDS = 315_576_000_000


def invalid(field: str, description: str) -> InvalidField:
    """The error for one bad field. Never repeats the value: it may be a card number."""
    return InvalidField(f"{field}: {description}", violations=(FieldViolation(field, description),))


def check_text(field: str, value: Any, *, required: bool = False) -> None:
    """Raises InvalidField unless `value` is a str that UTF-8 can carry."""
    if not isinstance(value, str):
        raise invalid(field, "must be a str")
    if required and not value:
        raise invalid(field, "must not be empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid(field, "must be text that UTF-8 can carry") from None


def clean_text(text: str, max_bytes: int) -> str:
    """`text` cut to whole characters within `max_bytes` of UTF-8; half a character becomes ?."""
    data = text.encode("utf-8", "replace")[:max_bytes]
    return data.decode("utf-8", "ignore")


def check_bytes(field: str, value: Any) -> None:
    """Raises InvalidField unless `value` is bytes; other buffers could change after the call."""
    if not isinstance(value, bytes):
        raise invalid(field, "must be bytes")


def check_int(field: str, value: Any, *, bits: int) -> None:
    """Raises InvalidField unless `value` is an int of that many bits; a bool is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(field, "must be an int")
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise invalid(field, f"must be an integer of {bits} bits")


def seconds_of(field: str, value: Any, *, positive: bool = False) -> float:
    """A span in seconds. Raises InvalidField if it is none, not finite, or negative."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            raise invalid(field, "is too long") from None
    else:
        raise invalid(field, "must be a timedelta or a number of seconds")
    if math.isnan(seconds):
        raise invalid(field, "must be a number of seconds")
    if seconds < 0 or (positive and seconds == 0):
        raise invalid(field, "must be positive" if positive else "must not be negative")
    if seconds > MOST_SECONDS:
        raise invalid(field, "is too long")
    return seconds
