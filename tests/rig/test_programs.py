"""Programs of a cluster: preferred where they are installed, and pinned where we build them."""

from pathlib import Path

import pytest

from rig import building, programs
from rig.building import BuildError
from rig.programs import ProgramError

BROKEN_GO = """\
#!/bin/sh
test "$1" = version && echo go version go1.26.0 linux/amd64
"""


def install(directory: Path, name: str) -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    program = directory / name
    program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for name in ("KUBEBUILDER_ASSETS", "KUBERNETES_VERSION"):
        monkeypatch.delenv(name, raising=False)


def test_installed_assets_are_preferred_to_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path, asset = install(tmp_path / "path", "etcd"), install(tmp_path / "assets", "etcd")
    without_assets = programs.find("etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(asset.parent))

    assert without_assets == on_path
    assert programs.find("etcd") == asset


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_that_is_not_installed_comes_from_the_cache(name: str) -> None:
    kept = building.kept_path(programs.recipe(name))
    install(kept.parent, name)

    assert programs.find(name) == kept


def test_an_unknown_program_is_refused_by_name() -> None:
    with pytest.raises(ProgramError, match="it is not installed"):
        programs.find("it")


def test_a_program_of_a_package_is_preferred_where_it_is_installed(tmp_path: Path) -> None:
    installed = install(tmp_path / "path", "prometheus")

    assert programs.find("prometheus") == installed


def test_what_has_to_be_built_is_said_before_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = building.kept_path(programs.recipe("etcd"))
    install(kept.parent, "etcd")
    go = install(tmp_path / "path", "go")
    go.write_text(BROKEN_GO, encoding="utf-8")
    with pytest.raises(BuildError):
        programs.find_all(["etcd", "kwok"])

    expected = f"1 of 2 programs have to be built: {programs.recipe('kwok').title}"
    assert expected in capsys.readouterr().err


def test_where_all_is_at_hand_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = {name: install(tmp_path / "path", name) for name in ("etcd", "kwok")}
    found = programs.find_all(installed)

    assert found == installed
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_each_program_has_the_version_that_its_module_pins(name: str) -> None:
    recipe = programs.recipe(name)
    text = (recipe.directory / "go.mod").read_text(encoding="utf-8")

    assert f"{programs.PROGRAMS[name].versioned} {recipe.version}\n" in text


def test_programs_of_kubernetes_tell_their_version_to_clients() -> None:
    stamped = programs.recipe("kube-apiserver").linker_flags
    plain = programs.recipe("etcd").linker_flags

    assert f"version.gitVersion=v{programs.DEFAULT_KUBERNETES}." in stamped
    assert "version.gitMajor=1" in stamped
    assert "version.gitMinor=35" in stamped
    assert plain == "-s -w"


def test_the_version_of_kubernetes_is_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "kubernetes-1.33"
    older.mkdir()
    pinned = "module it\n\nrequire k8s.io/kubernetes v1.33.9\n"
    (older / "go.mod").write_text(pinned, encoding="utf-8")
    monkeypatch.setattr(programs, "MODULES", tmp_path)
    monkeypatch.setenv("KUBERNETES_VERSION", "1.33")

    assert programs.recipe("kube-scheduler").directory == older
    assert programs.recipe("kube-scheduler").version == "v1.33.9"


def test_a_version_without_a_module_names_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_VERSION", "1.2")

    with pytest.raises(ProgramError, match=r"1\.2, and only 1\.33, 1\.35, 1\.37 can"):
        programs.find("kube-apiserver")


def test_a_module_that_pins_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/go.mod").write_text("module tools\n", encoding="utf-8")
    monkeypatch.setattr(programs, "MODULES", tmp_path)

    with pytest.raises(ProgramError, match=r"tools does not pin sigs\.k8s\.io/kwok"):
        programs.find("kwok")
