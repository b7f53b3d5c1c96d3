"""Seeds that the sources choose, so that every change of the code looks somewhere new."""

from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

import trimtab

FRESH = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with seeds, which are in its name."""
    if "fresh_seed" in metafunc.fixturenames:
        random = Random(hash_sources())
        metafunc.parametrize("fresh_seed", [random.randrange(10**9) for _ in range(FRESH)])


def hash_sources() -> str:
    """Return a hash of all modules: a checkout that has passed its tests once passes them again."""
    folder = Path(trimtab.__file__).parent
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
