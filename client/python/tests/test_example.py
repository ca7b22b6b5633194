"""The example, against a real service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import scenario_host

_EXAMPLE = Path(__file__).resolve().parents[1] / "example" / "payment_service.py"


@pytest.mark.skipif(not scenario_host.ADDRESS, reason="no scenario host is running")
def test_the_money_moves_once() -> None:
    target = scenario_host.get("/service")["target"]
    run = subprocess.run(
        [sys.executable, str(_EXAMPLE), target],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": str(_EXAMPLE.parents[1] / "src")},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == "money moved: 50"
    assert run.stderr == ""
