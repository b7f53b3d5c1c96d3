"""The original as a program: where it is built, and that it still gives the recorded answers."""

import shutil
from pathlib import Path

import pytest

from oracle import original

GOLDEN = Path(__file__).parent.parent / "golden"


def test_a_folder_from_the_environment_replaces_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))

    assert original.cache_directory() == tmp_path


def test_without_go_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "never built"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(original.OriginalError, match="Go is needed"):
        original.build()


@pytest.mark.skipif(
    shutil.which("go") is None or not original.is_built(),
    reason="the original is not built here; `make golden` builds it",
)
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: str(path.stem))
def test_the_original_still_gives_the_recorded_answers(path: Path) -> None:
    recorded = path.read_text(encoding="utf-8")

    assert dict(original.answer([(path.name, recorded)])) == {path.name: recorded}
