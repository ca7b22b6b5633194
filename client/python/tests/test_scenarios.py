"""The scenarios of all clients, replayed against a real service by both of this package's."""

from __future__ import annotations

import asyncio

import pytest

import scenario_host
from scenario_runner import SyncScenario
from scenario_runner_async import AsyncScenario


def _names() -> list[str]:
    if not scenario_host.ADDRESS:
        return []
    return [scenario["name"] for scenario in scenario_host.get("/scenarios")]


def _replay(name: str, language: str) -> None:
    session = scenario_host.Session(name, language)
    problem = "the runner broke"
    try:
        if language == "python":
            SyncScenario(session).run()
        else:
            asyncio.run(AsyncScenario(session).run())
        problem = ""
    except scenario_host.StepFailedError as error:
        problem = str(error)
        raise
    finally:
        session.end(problem)


@pytest.mark.parametrize("name", _names())
@pytest.mark.parametrize("language", ["python", "python-async"])
def test_scenario(language: str, name: str) -> None:
    _replay(name, language)
