"""Options that every test may read, and programs for those that need a real control plane."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from rig import programs

# How long an example takes says more about the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-dir",
        type=Path,
        default=Path(__file__).parent / "golden",
        help="directory with the recorded answers of the original (default: tests/golden)",
    )


@pytest.fixture(scope="session")
def bring(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Find programs or build them; progress is shown at once, as a build takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def run(*names: str) -> None:
        with capture.global_and_fixture_disabled():
            programs.find_all(names)

    return run
