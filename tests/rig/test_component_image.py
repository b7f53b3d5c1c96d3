"""The rig's image of the components: it is what the chart asks for and the Containerfile makes."""

import hashlib
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

import trimtab
from rig import component_image

ROOT = Path(__file__).parents[2]
NEEDED = {
    "usr/bin/python3",
    "usr/bin/trimtab",
    "usr/lib/python3/dist-packages/numpy/__init__.py",
    "usr/lib/python3/dist-packages/trimtab/cli/main.py",
    "usr/lib/python3/dist-packages/trimtab/py.typed",
    "usr/lib/python3/dist-packages/trimtab/rbac/recommender.yaml",
}


def copy_sources(folder: Path) -> Path:
    """What the wheel is made of, where nobody edits it meanwhile."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_its_name_is_the_one_that_the_chart_asks_for() -> None:
    chart = yaml.safe_load((ROOT / "charts/trimtab/Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((ROOT / "charts/trimtab/values.yaml").read_text(encoding="utf-8"))

    assert f"{values['image']['repository']}:{chart['appVersion']}" == component_image.NAME
    assert values["podSecurityContext"]["runAsUser"] == component_image.USER


def test_it_starts_as_the_containerfile_says() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)
    (user,) = re.findall(r"^USER (.+)$", text, re.MULTILINE)

    assert component_image.SETTINGS["Entrypoint"] == json.loads(entrypoint)
    assert component_image.SETTINGS["User"] == user


@pytest.mark.e2e
def test_two_builds_are_equal_and_hold_all_that_is_needed_and_no_shell(tmp_path: Path) -> None:
    sources = copy_sources(tmp_path / "sources")
    for name in ("one.tar", "two.tar"):
        component_image.build(tmp_path / name, sources)
    digests = {
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("one.tar", "two.tar")
    }
    with tarfile.open(tmp_path / "one.tar") as archive:
        largest = max(archive, key=lambda member: member.size)
        with tarfile.open(fileobj=archive.extractfile(largest)) as layer:
            members = {member.name: member for member in layer}
    # They are large, and pytest keeps folders.
    for name in ("one.tar", "two.tar"):
        (tmp_path / name).unlink()

    assert len(digests) == 1
    assert set(members) >= NEEDED
    assert (
        f"usr/lib/python3/dist-packages/trimtab-{trimtab.__version__}.dist-info/METADATA" in members
    )
    programs = {name for name in members if re.fullmatch(r"(usr/)?s?bin/.+", name)}
    assert {Path(name).name for name in programs} <= {"python3", "trimtab"} | {
        Path(members["usr/bin/python3"].linkname).name
    }
    modules = {name for name in members if "/trimtab/" in name and name.endswith(".py")}
    compiled = {name for name in members if "/trimtab/" in name and name.endswith(".pyc")}
    assert len(compiled) == len(modules)
    assert not [name for name, each in members.items() if each.mode & 0o6000]
