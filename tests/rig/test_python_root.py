"""A root of unpacked packages: complete, merged, without what only an installation needs."""

import stat
from pathlib import Path

import pytest

from rig import python_root
from rig.oci import Entry


def a_package(cache: Path, name: str, *files: str, needs: str = "") -> Path:
    """An unpacked package, as it is found in the cache."""
    folder = cache / f"debian/{name}_1_all"
    for file in ("DEBIAN/control", *files):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file, encoding="utf-8")
    (folder / "DEBIAN/control").write_text(f"Package: {name}\nDepends: {needs}\n", encoding="utf-8")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    return tmp_path


def test_packages_come_with_all_libraries_they_need_and_no_tools(cache: Path) -> None:
    a_package(cache, "python3-minimal", needs="python3.11-minimal (= 3.11), dpkg (>= 1.13)")
    a_package(cache, "python3.11-minimal", needs="libc6, zlib1g")
    a_package(cache, "libpython3-stdlib", needs="libc6")
    a_package(cache, "libstdc++6", needs="libc6, gcc-12-base")
    a_package(cache, "libc6", needs="libgcc-s1, debconf")
    # Both need each other, as the real ones do.
    a_package(cache, "libgcc-s1", needs="libc6")
    a_package(cache, "zlib1g", needs="libc6")

    assert [folder.name.partition("_")[0] for folder in python_root.list_packages()] == [
        "libc6",
        "libgcc-s1",
        "libpython3-stdlib",
        "libstdc++6",
        "python3-minimal",
        "python3.11-minimal",
        "zlib1g",
    ]


def test_files_of_old_and_new_places_meet_in_one_usr(cache: Path, tmp_path: Path) -> None:
    old = a_package(cache, "libold", "lib/x86/libold.so", "usr/share/doc/libold/copyright")
    new = a_package(cache, "libnew", "usr/lib/x86/libnew.so", "sbin/ldconfig", "etc/some.conf")
    python_root.assemble(tmp_path / "root", [old, new])

    root = tmp_path / "root"
    assert sorted(path.name for path in (root / "usr/lib/x86").iterdir()) == [
        "libnew.so",
        "libold.so",
    ]
    assert (root / "lib/x86/libold.so").is_file()
    assert list((root / "etc").iterdir()) == []
    assert not (root / "usr/share").exists()
    assert not (root / "usr/sbin/ldconfig").exists()
    assert not (root / "DEBIAN").exists()
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777


def test_entries_of_a_folder_tell_links_folders_and_programs_apart(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "usr/bin/it").write_bytes(b"it")
    (tmp_path / "usr/bin/it").chmod(0o700)
    (tmp_path / "usr/notes").write_bytes(b"notes")
    (tmp_path / "usr/notes").chmod(0o600)

    assert sorted(python_root.list_entries(tmp_path), key=lambda each: each.name) == [
        Entry("bin", link="usr/bin"),
        Entry("usr", mode=0o755),
        Entry("usr/bin", mode=0o755),
        Entry("usr/bin/it", tmp_path / "usr/bin/it", mode=0o755),
        Entry("usr/notes", tmp_path / "usr/notes", mode=0o644),
    ]
