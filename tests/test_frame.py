"""The frame itself: what a newcomer and the next release rely on."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from trimtab.simulation.checks.inspector import ALL

ROOT = Path(__file__).parent.parent
COMPONENTS = {"recommender", "roles", "updater", "admission"}
LAYERS = {"core", "api", "cluster", *COMPONENTS, "simulation", "backtest", "cli"}


def first_line(package: Path) -> str:
    """The first line of the docstring of a package."""
    return (ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or "").splitlines()[0]


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name]


def test_every_layer_is_a_package_of_its_own() -> None:
    packages = {path.parent.name for path in (ROOT / "src/trimtab").glob("*/__init__.py")}

    assert packages == LAYERS


def test_the_lock_file_pins_each_package_by_hash_and_names_no_host() -> None:
    text = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^[\w.-]+==", text, flags=re.MULTILINE)
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]

    assert pins
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


def test_the_lock_file_covers_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.split(r"[\[><=!~]", requirement)[0] for requirement in declared}
    locked = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")

    assert {name for name in names if not re.search(rf"^{name}==", locked, re.MULTILINE)} == set()


def test_each_make_verb_is_one_line() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = re.findall(r"^([a-z][a-z0-9-]*):.*##.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)

    assert {"test", "check", "smoke", "cluster", "e2e", "bench", "golden"} <= {
        name for name, _ in verbs
    }
    assert [name for name, recipe in verbs if recipe.count("\n") != 1] == []


def test_ci_runs_the_commands_that_the_readme_names() -> None:
    commands = re.findall(
        r"^make \w+$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert commands == ["make check", "make test", "make smoke"]
    assert all(command in readme for command in commands)


def test_the_hooks_of_git_run_the_commands_of_ci_that_need_no_cluster() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +entry: (.+)$", hooks, re.MULTILINE)
    commands = re.findall(
        r"^make \w+$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE
    )

    assert entries == [each for each in commands if each != "make smoke"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/rig.md"])
def test_each_make_verb_that_a_page_names_exists(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z][a-z0-9-]*):.*##", makefile, flags=re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    # Commands stand between backticks, or on lines of their own between fences.
    fenced = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
    named = {
        *re.findall(r"^make ([a-z][a-z0-9-]*)", fenced, flags=re.MULTILINE),
        *re.findall(r"`make ([a-z][a-z0-9-]*)", text),
    }

    assert named
    assert named - verbs == set()


def test_no_tracked_file_names_a_machine_path() -> None:
    machine_path = re.compile(r"(^|[^\w.-])/(work|root|home)/")
    named = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".json", ".go", ".mod"}
        and machine_path.search(path.read_text(encoding="utf-8"))
    ]

    assert named == []


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda p: p.stem
)
def test_each_decision_says_context_decision_alternatives_and_consequences(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert headings == ["Context", "Decision", "Alternatives considered", "Consequences"]
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+", page.stem)


def test_the_architecture_has_one_line_for_every_package() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src/trimtab"
    lines = [
        f"| `{path.parent.relative_to(source).as_posix()}` | {first_line(path)} |"
        for path in source.rglob("*/*/__init__.py")
    ]

    assert len(lines) > len(LAYERS)
    assert [line for line in lines if line not in text] == []


def test_the_page_of_the_simulation_names_every_rule() -> None:
    text = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")
    rules = [f"| `{each.__name__}` | {(each.__doc__ or '').splitlines()[0]} |" for each in ALL]

    assert [rule for rule in rules if rule not in text] == []
