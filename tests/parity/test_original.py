"""The original as a program still gives the answers that are recorded of it."""

from pathlib import Path

import pytest

from oracle import original

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.e2e
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: str(path.stem))
def test_the_original_still_gives_the_recorded_answers(path: Path) -> None:
    recorded = path.read_text(encoding="utf-8")

    assert dict(original.answer([(path.name, recorded)])) == {path.name: recorded}
