"""The wheel: it installs, imports, and brings its types."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_PROJECT = Path(__file__).resolve().parents[1]
_TOOLS = os.environ.get("IDEMPOTENCY_PYTHON_TOOLS", "")

_USE = """
from idempotency_client import Client, Key, OnLeaseExpiry, Outcome, RunOptions, WorkResult
from idempotency_client.testing import FakeRunner

reveal_type(FakeRunner().run_once)
"""


def _run(*command: str, cwd: Path = _PROJECT) -> str:
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=cwd)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.skipif(not _TOOLS, reason="the tools that build it are not known")
def test_the_wheel_installs_into_a_fresh_environment(tmp_path: Path) -> None:
    tools = f"{_TOOLS}/bin/python"
    pip = (tools, "-m", "pip", "--disable-pip-version-check")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    _run(*pip, "wheel", *options, "--wheel-dir", str(tmp_path), str(_PROJECT))
    (wheel,) = tmp_path.glob("idempotency_client-0.1.0-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "idempotency_client/py.typed" in names
    assert "idempotency_client/_generated/idempotency_service_pb2.pyi" in names
    assert not [name for name in names if name.startswith(("tests", "example"))]

    _run(tools, "-m", "venv", "--without-pip", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = tmp_path / "venv" / "lib" / version / "site-packages"
    _run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    # Its dependencies are those of this test; it must come from the wheel, not from the sources.
    there = "import sys; sys.path.append(sys.argv[1]); import idempotency_client as c; print(c)"
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    assert str(site) in _run(python, "-I", "-c", there, dependencies)

    use = tmp_path / "use.py"
    use.write_text(_USE)
    mypy = (tools, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "mypy"))
    output = _run(*mypy, "--python-executable", python, str(use), cwd=tmp_path)
    assert "on_lease_expiry: idempotency_client.types.OnLeaseExpiry" in output
    assert "Any" not in output


def test_the_version_is_the_projects() -> None:
    import idempotency_client  # noqa: PLC0415

    project = (_PROJECT / "pyproject.toml").read_text()
    assert f'version = "{idempotency_client.__version__}"' in project
