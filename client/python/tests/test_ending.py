"""A program that ends while its client works. Run by every Python of the range, also the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grpc

from service import Service, eventually, refuse

_PROGRAM = """
import sys, threading
from idempotency_client import *

def say(words):
    # A daemon thread that writes while the interpreter ends breaks it.
    if sys.argv[2] != "daemon":
        print(words, flush=True)

client = Client(sys.argv[1], INSECURE)
began = threading.Event()

def fn(attempt):
    began.set()
    sys.stdin.readline()
    say(f"stop: {attempt.stop.is_set()}")
    return WorkResult.completed(Outcome(200))

def call(name, fn):
    try:
        result = client.run_once(
            Key("acme", name), Request("o", Payload(b"")),
            on_lease_expiry=OnLeaseExpiry.TAKE_OVER, fn=fn,
        )
        say(type(result).__name__)
    except BaseException as error:
        say(repr(error))

def work():
    call("one", fn)
    call("two", lambda _: WorkResult.completed(Outcome(200)))

threading.Thread(target=work, daemon=sys.argv[2] == "daemon").start()
began.wait()
print("main ends", flush=True)
"""


def program(service: Service, kind: str) -> subprocess.Popen[str]:
    source = Path(__file__).resolve().parents[1] / "src"
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, service.target, kind],
        env={"PYTHONPATH": str(source)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_threads_that_outlive_the_main_thread_keep_leases_and_records(service: Service) -> None:
    service.lease = 0.6
    with program(service, "thread") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "main ends\n"
        renewals = len(service.requests("Renew"))
        eventually(lambda: len(service.requests("Renew")) > renewals + 5, "it is renewed on")
        out, _ = running.communicate("go on\n", 60)
        assert out.splitlines() == ["stop: False", "Completed", "Completed"]
        assert running.returncode == 0


def test_a_record_that_is_being_repeated_at_the_end_is_made(service: Service) -> None:
    service.behaviours["Complete"] = refuse(grpc.StatusCode.UNAVAILABLE)
    with program(service, "daemon") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "main ends\n"
        # The client, which is closing by now, waits for it.
        assert running.stdin is not None
        running.stdin.write("go on\n")
        running.stdin.flush()
        eventually(lambda: len(service.requests("Complete")) > 4, "it is repeated")
        del service.behaviours["Complete"]
        assert running.wait(60) == 0
    assert len({one.SerializeToString() for one in service.requests("Complete")}) == 1
