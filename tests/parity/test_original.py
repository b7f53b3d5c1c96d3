"""The original as a program still gives the answers that are recorded of it."""

import shutil
from pathlib import Path

import pytest

from oracle import original

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.skipif(
    shutil.which("go") is None or not original.is_built(),
    reason="the original is not built here; `make golden` builds it",
)
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: str(path.stem))
def test_the_original_still_gives_the_recorded_answers(path: Path) -> None:
    recorded = path.read_text(encoding="utf-8")

    assert dict(original.answer([(path.name, recorded)])) == {path.name: recorded}
