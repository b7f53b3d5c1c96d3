"""Options that every test may read, and programs for those that need a real control plane."""

from collections import defaultdict
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


def pytest_configure(config: pytest.Config) -> None:
    """Measure how long each test file takes, which `make quick` needs to choose among them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Durations(config), "durations-of-files")


class _Durations:
    """Seconds of each test file, kept for the next run."""

    def __init__(self, config: pytest.Config) -> None:
        is_partial = config.option.keyword or any("::" in each for each in config.args)
        self._cache = None if is_partial else getattr(config, "cache", None)
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of a phase of a test."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Store the durations beside those of files that were not run now."""
        if self._cache is not None:
            known = self._cache.get("trimtab/durations", {})
            new = {path: round(seconds, 2) for path, seconds in self._seconds.items()}
            self._cache.set("trimtab/durations", known | new)
