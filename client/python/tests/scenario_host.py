"""The scenario host, as the runners see it."""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

from scenario_values import JsonObject

ADDRESS = os.environ.get("IDEMPOTENCY_SCENARIO_HOST", "")

# The host ends every wait of its own after 60 s; this is only for a host that died.
_TIMEOUT = 150
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class StepFailedError(Exception):
    """A step that was not ok, and why."""


def get(path: str) -> Any:
    with _opener.open(ADDRESS + path, timeout=_TIMEOUT) as answer:
        return json.load(answer)


def post(path: str, body: JsonObject) -> Any:
    request = urllib.request.Request(
        ADDRESS + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with _opener.open(request, timeout=_TIMEOUT) as answer:
        data = answer.read()
    return json.loads(data) if data else None


class Session:
    """One scenario under way."""

    def __init__(self, scenario: str, language: str) -> None:
        session = post("/sessions", {"scenario": scenario, "language": language})
        self._path = f"/sessions/{session['id']}"
        self.target: str = session["target"]
        self.client: JsonObject = session.get("client") or {}
        self.steps: list[JsonObject] = session["steps"]

    def do(self, step: JsonObject) -> None:
        """A step of the host."""
        self._check(step, post(f"{self._path}/steps", step))

    def judge(self, step: JsonObject, actual: JsonObject) -> None:
        """What a step of the client came to."""
        if "expect" in step:
            judged = {"expect": step["expect"], "actual": actual}
            self._check(step, post(f"{self._path}/judge", judged))

    def end(self, problem: str) -> None:
        body: JsonObject = {"passed": not problem}
        post(f"{self._path}/end", {**body, "problem": problem} if problem else body)

    @staticmethod
    def _check(step: JsonObject, answer: JsonObject) -> None:
        if not answer["ok"]:
            raise StepFailedError(f"{step['do']} {step.get('call', '')}: {answer['problem']}")
