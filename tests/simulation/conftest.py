"""Fresh seeds: other ones each time, so that every test run looks somewhere new."""

import secrets

import pytest

FRESH = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fresh_seed" in metafunc.fixturenames:
        # The seed is in the test's name, and with it a failure can be replayed.
        metafunc.parametrize("fresh_seed", [secrets.randbelow(10**9) for _ in range(FRESH)])
