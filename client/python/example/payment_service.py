"""A tiny payment service with a partner that takes the money and then does not answer.

    ./dev run                                                          # in another terminal
    python client/python/example/payment_service.py 127.0.0.1:50051

Serves POST /payments on a free port and pays one order three times over HTTP, as a payer does that
lost the answer. The partner's first answer is lost after it took the money. What happens:

    call 1   the partner's time-out says nothing about the money, so the attempt ends unknown: 502
    call 2   is told that an attempt ended unknown, asks the partner by the downstream key, learns
             that the money moved, and records that: no second transfer: 201
    call 3   gets the recorded answer, byte for byte, without touching the partner: 201

Exits with 0 if the money moved once.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional

from idempotency_client import (
    INSECURE,
    Attempt,
    Client,
    IdempotencyError,
    Key,
    OnLeaseExpiry,
    Outcome,
    Payload,
    Request,
    Runner,
    WorkResult,
    http_answer,
)


class Partner:
    """The bank at the other end. It remembers transfers by the key that comes with them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transfers: dict[str, str] = {}
        self.money_moved = 0

    def transfer(self, downstream_key: str, amount: int) -> str:
        """Takes the money, once for each key. Its first answer never comes back."""
        with self._lock:
            if downstream_key in self._transfers:
                return self._transfers[downstream_key]
            self.money_moved += amount
            transfer = f"tr-{len(self._transfers) + 1}"
            self._transfers[downstream_key] = transfer
            if len(self._transfers) == 1:
                raise TimeoutError("the partner did not answer in time")
            return transfer

    def find(self, downstream_key: str) -> Optional[str]:
        """The transfer with that key, if there is one."""
        with self._lock:
            return self._transfers.get(downstream_key)


def paid(transfer: str) -> WorkResult:
    body = json.dumps({"transfer": transfer}).encode()
    outcome = Outcome(201, content_type="application/json", body=body, response_id=transfer)
    return WorkResult.completed(outcome)


def handler_of(runner: Runner, partner: Partner) -> type[BaseHTTPRequestHandler]:
    class PaymentHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            amount = json.loads(body)["amount"]

            def pay(attempt: Attempt) -> WorkResult:
                if attempt.unknown_attempts > 0:
                    known = partner.find(attempt.downstream_key)
                    if known is not None:
                        return paid(known)
                # Whatever this raises is recorded as unknown.
                return paid(partner.transfer(attempt.downstream_key, amount))

            try:
                answer = http_answer(
                    runner.run_once(
                        Key("shop-1", self.headers["Idempotency-Key"]),
                        Request("POST /payments", Payload(body, "application/json")),
                        on_lease_expiry=OnLeaseExpiry.TAKE_OVER,
                        fn=pay,
                    )
                )
            except IdempotencyError as error:
                answer = http_answer(error)
            self.send_response(answer.status)
            for name, value in answer.text_headers():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stays silent: the payer prints."""

    return PaymentHandler


def call(url: str, key: str) -> tuple[int, str, bytes]:
    """What the payer sends, and gets: status, whether it was replayed, body."""
    request = urllib.request.Request(
        url,
        data=b'{"amount": 50}',
        headers={"Idempotency-Key": key, "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, answer.headers.get("Idempotent-Replayed", "-"), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Idempotent-Replayed", "-"), error.read()


def main(target: str, key: str) -> int:
    partner = Partner()
    with Client(target, INSECURE) as runner:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(runner, partner))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/payments"
            answers = [call(url, key) for _ in range(3)]
        finally:
            server.shutdown()
            server.server_close()
    for number, (status, replayed, body) in enumerate(answers, 1):
        print(f"call {number}: {status}, replayed: {replayed}, {body.decode()}")
    print(f"money moved: {partner.money_moved}")
    expected = [(502, "-"), (201, "-"), (201, "true")]
    seen = [(status, replayed) for status, replayed, _ in answers]
    same_bytes = answers[1][2] == answers[2][2]
    return 0 if partner.money_moved == 50 and seen == expected and same_bytes else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("Usage: payment_service.py HOST:PORT [KEY]")
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else f"order-{uuid.uuid4()}"))
