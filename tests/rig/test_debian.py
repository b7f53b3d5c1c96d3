"""Programs of Debian packages: installed ones first, fetched once, and no word of it to the system.

The package is real and is unpacked by the real dpkg-deb; only the archive is played.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from rig import debian
from rig.debian import PackageError

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb here")

CONTROL = """\
Package: it-package
Version: 1:2.3~ds1-1+b4
Architecture: all
Maintainer: nobody <nobody@example.com>
Pre-Depends: libit-first
Depends: libit1 (>= 2:3), python3:any, media-types | mime-support
Description: holds one program
"""
# Plays apt-get: keeps its calls, and copies the archive to where it is called.
APT = """\
#!/bin/sh
echo "$*" >> "$CALLS"
for word; do last=$word; done
case "$*" in
  *lists*) ;;
  *) test -z "$STALE" || {{ echo "404 not found" >&2; exit 100; }} ;;
esac
case "$*" in
  *download*) cp {archive} "it-package_1%3a2.3~ds1-1+b4_all.deb" ;;
esac
"""


def write_program(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    write_program(tree / "usr/sbin/it-program")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(CONTROL, encoding="utf-8")
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", tree, tmp_path / "it.deb"],
        check=True,
        capture_output=True,
    )
    return tmp_path / "it.deb"


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What apt-get was asked for, line by line."""
    write_program(tmp_path / "bin/apt-get", APT.format(archive=archive))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("STALE", raising=False)
    (tmp_path / "calls").touch()
    return tmp_path / "calls"


def test_an_installed_program_is_used_and_nothing_is_fetched(tmp_path: Path, calls: Path) -> None:
    installed = write_program(tmp_path / "bin/it-program")

    assert debian.find("it-program", "it-package") == installed
    assert not calls.read_text(encoding="utf-8")


def test_a_missing_program_comes_from_its_package_which_is_fetched_once(
    tmp_path: Path, calls: Path
) -> None:
    first = debian.find("it-program", "it-package")
    again = debian.find("it-program", "it-package")

    assert first == again
    assert first.is_relative_to(tmp_path / "cache/debian")
    assert "2.3~ds1-1+b4" in str(first)
    assert subprocess.run([first], check=False).returncode == 0
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 1


def test_nothing_but_the_unpacked_package_stays_in_the_cache(tmp_path: Path) -> None:
    kept = debian.unpack("it-package")

    assert list((tmp_path / "cache/debian").iterdir()) == [kept]


def test_what_a_package_needs_is_told_without_versions_and_with_one_of_alternatives() -> None:
    needs = debian.list_needs("it-package")

    assert needs == ["libit-first", "libit1", "python3", "media-types"]


def test_old_lists_of_packages_are_renewed_in_a_folder_of_our_own(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALE", "yes")
    debian.unpack("it-package")

    asked = calls.read_text(encoding="utf-8").splitlines()
    assert [line.rpartition("-o")[2].partition(" ")[2] for line in asked] == [
        "download it-package",
        "update",
        "download it-package",
    ]
    assert all("Dir::State::Lists=" in line for line in asked[1:])


def test_what_apt_says_is_shown_when_a_package_cannot_be_had(tmp_path: Path) -> None:
    write_program(tmp_path / "bin/apt-get", "#!/bin/sh\necho no such package >&2\nexit 100\n")

    with pytest.raises(PackageError, match="no such package"):
        debian.unpack("it-package")

    assert list((tmp_path / "cache/debian").iterdir()) == []


def test_a_program_that_its_package_does_not_hold_is_named() -> None:
    with pytest.raises(PackageError, match="it-package holds no program another"):
        debian.find("another", "it-package")


def test_without_apt_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert debian.why_not() == "no apt-get to fetch packages of Debian with"
    with pytest.raises(PackageError, match="it-package is not at hand: no apt-get"):
        debian.unpack("it-package")


def test_with_apt_nothing_stands_against_packages() -> None:
    assert debian.why_not() is None
