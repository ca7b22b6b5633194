"""Keys and downstream keys: the same as every other client's, by the shared vectors."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

import vectors
from idempotency_client import (
    Attempt,
    InvalidField,
    Key,
    business_key,
    downstream_key_for,
    random_request_id,
)

BUSINESS = vectors.load("business_key")
DOWNSTREAM = vectors.load("downstream_key")
DOWNSTREAM_KEY = "6ba7b810-9dad-51d1-80b4-00c04fd430c8"


def field_of(error: pytest.ExceptionInfo[InvalidField]) -> str:
    (violation,) = error.value.violations
    return violation.field


@pytest.mark.parametrize("case", BUSINESS["cases"], ids=vectors.named(BUSINESS["cases"]))
def test_business_key(case: dict[str, Any]) -> None:
    key = business_key(case["kind"], *case["parts"])
    assert key == case["key"]
    assert len(key) <= 255


@pytest.mark.parametrize("case", BUSINESS["refused"], ids=vectors.named(BUSINESS["refused"]))
def test_business_key_refused(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        business_key(case["kind"], *case["parts"])
    assert field_of(error) == case["field"]


@pytest.mark.parametrize(
    ("kind", "part", "field"),
    [
        ("pay", "\ud800", "parts[0]"),
        ("pay", 7, "parts[0]"),
        ("pay", b"7", "parts[0]"),
        (7, "7", "kind"),
    ],
)
def test_business_key_of_what_is_no_text(kind: Any, part: Any, field: str) -> None:
    with pytest.raises(InvalidField) as error:
        business_key(kind, part)
    assert field_of(error) == field


def test_business_keys_answer_for_30_days() -> None:
    key = Key.business("acme", "pay", "order-7", "card")
    assert key == Key("acme", "pay:order-7:card")
    assert key.ttl == timedelta(days=30)


def test_random_request_ids_are_new_uuids_of_version_4() -> None:
    first, second = random_request_id(), random_request_id()
    assert first != second
    assert uuid.UUID(first).version == 4
    assert str(uuid.UUID(first)) == first


@pytest.mark.parametrize("case", DOWNSTREAM["cases"])
def test_downstream_key(case: dict[str, Any]) -> None:
    key = downstream_key_for(case["downstream_key"], case["partner"], case["shape"])
    assert key == case["key"]


@pytest.mark.parametrize("case", DOWNSTREAM["refused"], ids=vectors.named(DOWNSTREAM["refused"]))
def test_downstream_key_refused(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        downstream_key_for(case["downstream_key"], case["partner"], case["shape"])
    assert field_of(error) == case["field"]


def test_digits_have_their_length_and_no_leading_zero() -> None:
    for count in range(16, 65):
        key = downstream_key_for(DOWNSTREAM_KEY, "acme-bank", f"digits{count}")
        assert len(key) == count
        assert key.isdigit()
        assert key[0] != "0"


def test_an_attempt_makes_its_own() -> None:
    attempt = Attempt(downstream_key=DOWNSTREAM_KEY)
    assert attempt.downstream_key_for("A", "hex32") == downstream_key_for(
        DOWNSTREAM_KEY, "A", "hex32"
    )


def test_an_unprotected_attempt_has_none_to_make_it_of() -> None:
    with pytest.raises(InvalidField) as error:
        Attempt(unprotected=True).downstream_key_for("A", "hex32")
    assert field_of(error) == "downstream_key"
