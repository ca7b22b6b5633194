"""Keys: what an operation is called, and what it is called at a partner's."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from typing import Any

from ._check import check_text, invalid

_MAX_KEY_BYTES = 255
_MAX_PART_BYTES = 1024
_MAX_PARTS = 16
_LONGEST_PLAIN_PART = 64
_KIND = re.compile(r"[a-z0-9._-]{1,32}")
_PARTNER = re.compile(r"[ -~]{1,64}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGITS = re.compile(r"digits([1-9][0-9])")
_FEWEST_DIGITS = 16
_MOST_DIGITS = 64
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def random_request_id() -> str:
    """A UUIDv4 from the system's random source, for requests that have no key of their own.

    Keep it with the request: a retry under another id is another operation. ``uuid4`` takes all its
    random bits from ``os.urandom``.
    """
    return str(uuid.uuid4())


def business_key(kind: str, *parts: str) -> str:
    """Names an operation by what it is about: ``business_key("pay", "order-7", "card")``.

    Two different lists of parts never make the same key: separators and everything unusual in a
    part are escaped, long parts are hashed. It never changes for the same arguments, in no
    language.

    Args:
        kind: 1 to 32 of ``a-z 0-9 . _ -``.
        parts: 1 to 16, each 1 to 1,024 bytes of UTF-8.

    Returns:
        At most 255 bytes of printable ASCII.

    Raises:
        InvalidField: ``kind``, ``parts`` or ``parts[2]`` is out of bounds.
    """
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise invalid("kind", "must be 1 to 32 of a-z 0-9 . _ -")
    if not 1 <= len(parts) <= _MAX_PARTS:
        raise invalid("parts", f"must be 1 to {_MAX_PARTS}")
    key = ":".join([kind, *(_part(at, part) for at, part in enumerate(parts))])
    return key if len(key) <= _MAX_KEY_BYTES else f"{kind}:~~{_digest(key.encode())}"


def _part(at: int, part: Any) -> str:
    check_text(f"parts[{at}]", part, required=True)
    data: bytes = part.encode("utf-8")
    if len(data) > _MAX_PART_BYTES:
        raise invalid(f"parts[{at}]", f"must be at most {_MAX_PART_BYTES} bytes of UTF-8")
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    return text if len(text) <= _LONGEST_PLAIN_PART else f"~{_digest(data)}"


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def downstream_key_for(downstream_key: str, partner: str, shape: str) -> str:
    """The downstream key for one of several partners, in a shape that its field takes.

    Args:
        downstream_key: The record's, ``Attempt.downstream_key``: 36 lower-case characters.
        partner: Your own name for the partner, 1 to 64 bytes of printable ASCII. Never change it:
            another name makes another key, and the partner would pay again.
        shape: ``uuid`` (36 characters), ``hex32`` (32), ``max50`` (50), ``max255`` (64), or
            ``digits16`` to ``digits64`` (that many digits, the first not 0).

    Raises:
        InvalidField: ``downstream_key``, ``partner`` or ``shape`` is none of these. Fewer than 16
            digits are refused: two payments in a hundred million would share a key.
    """
    if not isinstance(downstream_key, str) or not _UUID.fullmatch(downstream_key):
        raise invalid("downstream_key", "must be a UUID of 36 lower-case characters")
    if not isinstance(partner, str) or not _PARTNER.fullmatch(partner):
        raise invalid("partner", "must be 1 to 64 bytes of printable ASCII")
    if not isinstance(shape, str):
        raise invalid("shape", "must be a str")
    hashed = hashlib.sha256(b"idempotency.v1 downstream key")
    for text in (downstream_key, partner, shape):
        hashed.update(len(text).to_bytes(2, "big") + text.encode())
    digest = hashed.digest()
    if shape == "uuid":
        return str(uuid.UUID(int=_as_uuid8(int.from_bytes(digest[:16], "big"))))
    if shape == "hex32":
        return digest[:16].hex()
    if shape == "max50":
        return digest[:25].hex()
    if shape == "max255":
        return digest.hex()
    digits = _DIGITS.fullmatch(shape)
    if digits is None or not _FEWEST_DIGITS <= int(digits[1]) <= _MOST_DIGITS:
        raise invalid("shape", "must be uuid, hex32, max50, max255 or digits16 to digits64")
    count = int(digits[1])
    number = int.from_bytes(digest, "big")
    return f"{1 + number % 9}{number // 9 % 10 ** (count - 1):0{count - 1}}"


def _as_uuid8(bits: int) -> int:
    version, variant = 8, 2
    bits = bits & ~(0xF << 76) | version << 76
    return bits & ~(0x3 << 62) | variant << 62
