"""Modules that a component has imported before its first tick: memory of small clusters."""

import subprocess
import sys

import pytest

ASK = """
import sys
from trimtab.cli.main import main
# All flags are read, and then one makes no sense.
code = main([*sys.argv[1:], "--address=nowhere"])
assert code == 2, code
print(*sys.modules, sep="\\n")
"""
FOR_OTHERS = {
    *{"aiohttp", "cryptography", "jinja2", "pygments", "rich", "yaml"},
}
"""What only other commands, other flags or tests have use for."""


def imported_by(command: str) -> set[str]:
    asked = [sys.executable, "-c", ASK, command]
    run = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        pytest.param("recommender", FOR_OTHERS, id="the recommender"),
        pytest.param("updater", FOR_OTHERS | {"numpy"}, id="the updater"),
        pytest.param("roles", FOR_OTHERS | {"numpy"}, id="the role keeper"),
        pytest.param("admission-controller", FOR_OTHERS | {"numpy"}, id="the webhook"),
        pytest.param("run", FOR_OTHERS, id="all in one process"),
    ],
)
def test_a_component_starts_without_what_only_others_need(command: str, unwanted: set[str]) -> None:
    found = imported_by(command)

    assert "structlog" in found
    assert not found & unwanted
    assert not {name for name in found if name.startswith(("trimtab.simulation", "trimtab.back"))}
