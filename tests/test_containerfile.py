"""The Containerfile keeps its rules; building it needs a registry, reading it does not."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trimtab

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()


def steps(word: str) -> list[str]:
    """What stands after an instruction, each time that it is given."""
    return [line.partition(" ")[2].strip() for line in LINES if line.startswith(f"{word} ")]


def copied() -> set[str]:
    """What is copied out of this folder."""
    own = [each for each in steps("COPY") if "--from=" not in each]
    return {source for each in own for source in each.split()[:-1]}


def build(folder: Path) -> Path:
    """What the first stage makes, done step by step in a folder instead of a container."""
    made, context = folder / "made", folder / "build"
    context.mkdir()
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    path = os.pathsep.join([str(folder / "venv/bin"), os.environ["PATH"]])
    for line in LINES[: LINES.index("FROM ${BASE}")]:
        word, _, rest = line.partition(" ")
        if word == "COPY":
            *sources, _ = rest.split()
            for source in sources:
                (context / source).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-r", ROOT / source, context / source], check=True)
        if word == "RUN":
            command = ["bash", "-euo", "pipefail", "-c", rest.replace("/made", str(made))]
            subprocess.run(command, cwd=context, env={**os.environ, "PATH": path}, check=True)
    return made


def read_pins(name: str) -> dict[str, frozenset[str]]:
    """The hashes of each pinned release in a lock file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    return {
        block.split(" ", 1)[0]: frozenset(re.findall(r"--hash=sha256:(\w+)", block))
        for block in blocks
    }


def test_both_bases_are_tagged_by_a_release_and_none_is_the_latest() -> None:
    bases = dict(each.split("=", 1) for each in steps("ARG"))

    assert set(bases) == {"BUILDER", "BASE"}
    assert steps("FROM") == ["${BUILDER} AS build", "${BASE}"]
    assert all(re.search(r"bookworm|debian12", base) for base in bases.values())
    assert not any(base.endswith(":latest") or ":" not in base for base in bases.values())


def test_it_builds_with_the_oldest_python_that_the_project_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    floor = project["requires-python"].removeprefix(">=")

    # The packages are for one version of Python, and the base of that Debian has just that one.
    assert f"python:{floor}-slim-bookworm" in TEXT
    assert "python3-debian12" in TEXT


def test_everything_that_is_installed_is_pinned_by_hash_or_is_our_own() -> None:
    installs = [each for each in steps("RUN") if "pip install" in each]

    assert len(installs) == 3
    for install in installs:
        pinned = "--require-hashes" in install and "--only-binary=:all:" in install
        own = "--no-index" in install and "--no-deps" in install
        assert pinned != own
    assert not re.search(r"apt-get|curl|wget|^ADD ", TEXT, re.MULTILINE)


def test_it_runs_without_root_and_without_a_shell() -> None:
    final = TEXT.rpartition("\nFROM ")[2]

    assert steps("USER") == ["65534:65534"]
    assert "\nUSER 65534:65534\n" in final
    assert "\nRUN " not in final
    assert steps("ENTRYPOINT") == ['["/usr/bin/trimtab"]']
    assert steps("CMD") == []


def test_nothing_secret_is_asked_for_or_copied() -> None:
    assert not re.search(r"token|password|secret|key\b", TEXT, re.IGNORECASE)
    assert copied() == {
        "LICENSE",
        "README.md",
        "charts/trimtab/files/rbac",
        "pyproject.toml",
        "requirements-build.txt",
        "requirements.txt",
        "src",
    }
    assert all((ROOT / source).exists() for source in copied())


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    rules = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()

    assert "*" in rules
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_what_the_image_holds_is_what_was_tested(name: str) -> None:
    pins, tested = read_pins(name), read_pins("requirements-dev.txt")

    assert pins
    assert {pin: hashes for pin, hashes in pins.items() if tested.get(pin) != hashes} == {}


def test_the_lock_of_the_image_covers_every_dependency_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = {pin.split("==")[0] for pin in read_pins("requirements.txt")}
    wanted = {re.split(r"[\[><=!~]", each)[0] for each in project["project"]["dependencies"]}
    built = {pin.split("==")[0] for pin in read_pins("requirements-build.txt")}

    assert wanted <= pins
    assert set(project["build-system"]["requires"]) <= built
    assert not pins & {"pytest", "mypy", "ruff", "hatchling"}


@pytest.mark.e2e
def test_the_steps_of_the_build_make_a_program_that_runs(tmp_path: Path) -> None:
    made = build(tmp_path)
    done = subprocess.run(
        [tmp_path / "venv/bin/python", made / "trimtab", "version"],
        env={"PYTHONPATH": str(made / "packages")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == (f"{trimtab.__version__}\n", "")
    assert list((made / "packages/trimtab").glob("rbac/*.yaml"))
    assert list((made / "packages/trimtab").glob("__pycache__/*.pyc"))
    assert (made / "trimtab").stat().st_mode & 0o777 == 0o755
