"""The vectors of all clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).resolve().parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((_DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))


def named(cases: list[dict[str, Any]]) -> list[str]:
    """What pytest calls them."""
    return [str(case.get("name", at)) for at, case in enumerate(cases)]
