"""Building Go programs: where they are kept, what is said, and that nothing half done remains."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rig import building
from rig.building import BuildError, Recipe

GO = """\
#!/bin/sh
case $1 in
  build) echo "$PWD $*" >> "$CALLS"; while [ "$1" != -o ]; do shift; done; echo built > "$2";;
  list) echo /modules/it;;
  version) echo go version go1.26.0 linux/amd64;;
esac
"""
# Says its version, as any Go does, and fails in all else.
BROKEN = """\
#!/bin/sh
case $1 in
  version) echo go version go1.26.0 linux/amd64;;
  *) echo "no such module" >&2; exit 1;;
esac
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A recipe whose Go only pretends."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "go.mod").write_text("module it\n", encoding="utf-8")
    (sources / "main.go").write_text("package main\n", encoding="utf-8")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    write_go(tmp_path, monkeypatch, GO)
    return Recipe("it", sources, version="v1")


def write_go(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    go = directory / "bin/go"
    go.parent.mkdir(exist_ok=True)
    go.write_text(text, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/bin:/usr/bin")


def test_a_folder_from_the_environment_replaces_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    chosen = building.cache_directory()
    monkeypatch.delenv("TRIMTAB_CACHE")

    assert chosen == tmp_path
    assert building.cache_directory() == Path.home() / ".cache/trimtab"


def test_a_program_is_built_once_where_its_sources_are(recipe: Recipe, tmp_path: Path) -> None:
    first = building.build(recipe)
    again = building.build(recipe)

    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert first == again == building.kept_path(recipe)
    assert first.read_text(encoding="utf-8") == "built\n"
    assert len(calls) == 1
    assert calls[0].startswith(f"{recipe.directory} build -v -trimpath")


def test_a_program_is_kept_by_its_version_outside_the_tree(recipe: Recipe, tmp_path: Path) -> None:
    kept = building.kept_path(recipe)

    assert kept.name == "it"
    assert kept.parent.parent == tmp_path / "cache"
    assert kept.parent.name.startswith("it-v1-")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda it: replace(it, package="./other"), id="another package of the module"),
        pytest.param(lambda it: replace(it, linker_flags="-X a=b"), id="another stamp"),
        pytest.param(lambda it: replace(it, version="v2"), id="another version"),
    ],
)
def test_another_recipe_is_another_program(
    recipe: Recipe, change: Callable[[Recipe], Recipe]
) -> None:
    assert building.kept_path(change(recipe)) != building.kept_path(recipe)


@pytest.mark.parametrize("file", ["main.go", "go.mod"])
def test_changed_sources_are_built_anew(recipe: Recipe, file: str) -> None:
    before = building.kept_path(recipe)
    with (recipe.directory / file).open("a", encoding="utf-8") as source:
        source.write("// more\n")

    assert building.kept_path(recipe) != before


def test_without_go_and_without_a_way_to_fetch_it_there_is_no_build(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(BuildError, match="Go is needed to build this"):
        building.build(recipe)


def test_a_failed_build_shows_the_last_words_of_go_and_leaves_nothing(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_go(tmp_path, monkeypatch, BROKEN)

    with pytest.raises(BuildError, match="no such module"):
        building.build(recipe)

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_build_says_what_is_built_into_which_folder(
    recipe: Recipe, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = building.build(recipe)

    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"build: it v1: building into {kept.parent}")
    assert last.startswith("build: it v1: done in ")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], "0 modules fetched", id="nothing yet"),
        pytest.param(
            ["go: downloading a v1", "go: downloading b v1"],
            "2 modules fetched",
            id="modules come first",
        ),
        pytest.param(
            ["go: downloading a v1", "a/one", "a/two"],
            "2 packages compiled, the last was a/two",
            id="then packages",
        ),
    ],
)
def test_progress_tells_how_far_go_is(lines: list[str], expected: str) -> None:
    assert building._describe(lines) == expected


def test_the_sources_of_a_module_are_where_go_says(recipe: Recipe) -> None:
    assert building.module_directory(recipe, "example.com/it") == Path("/modules/it")


def test_a_module_that_go_does_not_know_is_named(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_go(tmp_path, monkeypatch, BROKEN)

    with pytest.raises(BuildError, match=r"go cannot find example.com/it:\nno such module"):
        building.module_directory(recipe, "example.com/it")
