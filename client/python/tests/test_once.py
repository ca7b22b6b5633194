"""The decorator, with both fakes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from idempotency_client import (
    AsyncAttempt,
    Attempt,
    InProgressError,
    InvalidField,
    Key,
    KeyReused,
    OnLeaseExpiry,
    Outcome,
    Payload,
    Replayed,
    RunOptions,
    WorkFailedError,
    WorkResult,
)
from idempotency_client.testing import AsyncFakeRunner, FakeRunner

TAKE_OVER = OnLeaseExpiry.TAKE_OVER


@dataclass(frozen=True)
class Order:
    number: int
    amount: int = 50


@dataclass(frozen=True)
class Receipt:
    transfer: str

    def to_outcome(self) -> Outcome:
        return Outcome(201, body=json.dumps({"transfer": self.transfer}).encode())

    @classmethod
    def from_outcome(cls, outcome: Outcome) -> Receipt:
        return cls(json.loads(outcome.body or b"")["transfer"])


def key_of(order: Order) -> Key:
    return Key.business("acme", "pay", str(order.number))


def payload_of(order: Order) -> Payload:
    return Payload(json.dumps({"amount": order.amount}).encode(), "application/json")


ARGUMENTS: Any = {
    "operation": "POST /payments",
    "on_lease_expiry": TAKE_OVER,
    "key": key_of,
    "payload": payload_of,
}
CODEC: Any = {"encode": Receipt.to_outcome, "decode": Receipt.from_outcome}


def test_callers_get_the_recorded_outcome() -> None:
    runs: list[Order] = []

    @FakeRunner().once(**ARGUMENTS)
    def pay(attempt: Attempt, order: Order) -> WorkResult:
        """Pays."""
        runs.append(order)
        return WorkResult.completed(Outcome(201, body=attempt.downstream_key.encode()))

    first, second = pay(Order(7)), pay(Order(7))
    assert first == second
    assert runs == [Order(7)]
    assert pay.__name__ == "pay"
    assert pay.__doc__ == "Pays."


def test_callers_get_the_same_value_now_and_in_a_replay() -> None:
    runs: list[Order] = []

    @FakeRunner().once(**ARGUMENTS, **CODEC)
    def pay(_: Attempt, order: Order) -> Receipt:
        runs.append(order)
        return Receipt(f"tr-{order.number}")

    assert pay(Order(7)) == pay(order=Order(7)) == Receipt("tr-7")
    assert pay(Order(8)) == Receipt("tr-8")
    assert runs == [Order(7), Order(8)]


def test_a_function_with_a_codec_may_say_what_the_work_came_to() -> None:
    @FakeRunner().once(**ARGUMENTS, **CODEC)
    def pay(_: Attempt, order: Order) -> Any:
        return WorkResult.final("DECLINED", f"no cover for {order.number}")

    for _ in range(2):
        with pytest.raises(WorkFailedError) as error:
            pay(Order(7))
        assert error.value.failure.code == "DECLINED"
    assert isinstance(error.value.result, Replayed)
    assert error.value.__cause__ is None


def test_what_the_function_raised_is_the_cause() -> None:
    mistake = TimeoutError("no answer")

    @FakeRunner().once(**ARGUMENTS)
    def pay(_attempt: Attempt, _order: Order) -> WorkResult:
        raise mistake

    with pytest.raises(WorkFailedError) as error:
        pay(Order(7))
    assert error.value.__cause__ is mistake
    assert "no answer" not in str(error.value)


def test_a_value_that_cannot_be_encoded_leaves_an_unknown_end() -> None:
    def encode(_: Any) -> Outcome:
        raise ValueError

    runner = FakeRunner()

    @runner.once(**ARGUMENTS, encode=encode, decode=str)
    def pay(_attempt: Attempt, _order: Order) -> str:
        return "paid"

    with pytest.raises(WorkFailedError) as error:
        pay(Order(7))
    assert isinstance(error.value.__cause__, ValueError)
    assert runner.lookup(key_of(Order(7))).state.value == "ABANDONED"


def test_in_progress_and_errors_are_raised() -> None:
    runner = FakeRunner()

    @runner.once(**ARGUMENTS)
    def pay(_: Attempt, order: Order) -> WorkResult:
        with pytest.raises(InProgressError) as busy:
            pay(order)
        assert busy.value.result.attempt_number == 1
        return WorkResult.completed(Outcome(201))

    pay(Order(7))
    with pytest.raises(KeyReused):
        pay(Order(7, amount=51))


def test_methods_take_their_attempt_first() -> None:
    runner = FakeRunner()

    def pay(attempt: Attempt, shop: str, order: Order) -> WorkResult:
        assert shop == "corner"
        return WorkResult.completed(Outcome(200, response_id=f"{attempt.attempt_number}"))

    functions: Any = {
        "key": lambda _shop, order: key_of(order),
        "payload": lambda _shop, order: payload_of(order),
    }
    once: Any = runner.once(**{**ARGUMENTS, **functions})
    assert once(pay)("corner", Order(7)).response_id == "1"


def test_options_are_those_of_run_once() -> None:
    runner = FakeRunner()

    @runner.once(**ARGUMENTS, options=RunOptions(labels={"a": "b"}))
    def pay(_attempt: Attempt, _order: Order) -> WorkResult:
        return WorkResult.completed(Outcome(200))

    pay(Order(7))
    assert runner.lookup(key_of(Order(7))).labels == {"a": "b"}


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("operation", {"operation": ""}),
        ("operation", {"operation": None}),
        ("on_lease_expiry", {"on_lease_expiry": None}),
        ("key", {"key": Key("a", "b")}),
        ("payload", {"payload": None}),
        ("encode", {"encode": Receipt.to_outcome}),
        ("encode", {"decode": Receipt.from_outcome}),
        ("options", {"options": None}),
    ],
)
@pytest.mark.parametrize("make", [FakeRunner, AsyncFakeRunner])
def test_a_mistake_is_named_where_it_is_made(make: Any, field: str, given: Any) -> None:
    with pytest.raises(InvalidField) as error:
        make().once(**{**ARGUMENTS, **given})(print)
    assert [violation.field for violation in error.value.violations] == [field]


def test_a_key_of_another_type_is_named_at_the_call() -> None:
    @FakeRunner().once(**{**ARGUMENTS, "key": lambda _: "order-7"})
    def pay(_attempt: Attempt, _order: Order) -> WorkResult:
        raise AssertionError("fn ran")

    with pytest.raises(InvalidField) as error:
        pay(Order(7))
    assert [violation.field for violation in error.value.violations] == ["key"]


def test_in_asyncio_too() -> None:
    runs: list[Order] = []

    async def body() -> None:
        runner = AsyncFakeRunner()

        @runner.once(**ARGUMENTS, **CODEC)
        async def pay(attempt: AsyncAttempt, order: Order) -> Receipt:
            runs.append(order)
            if order.number == 8:
                raise TimeoutError(attempt.downstream_key)
            return Receipt(f"tr-{order.number}")

        assert await pay(Order(7)) == await pay(order=Order(7)) == Receipt("tr-7")
        with pytest.raises(WorkFailedError) as error:
            await pay(Order(8))
        assert isinstance(error.value.__cause__, TimeoutError)

    asyncio.run(body())
    assert runs == [Order(7), Order(8)]
