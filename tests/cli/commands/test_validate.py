"""`trimtab validate`: what it says about files, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml
from support.makers.wire_autoscalers import a_manifest, with_boost

from trimtab.cli.main import main


@dataclass(frozen=True)
class Run:
    returncode: int
    stdout: str
    stderr: str


Validate: TypeAlias = Callable[..., Run]


def a_bomb() -> str:
    """Lists of nine aliases each to the list before, ten deep."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9)]
    return "\n".join(lines)


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str]) -> Validate:
    """The command inside this process: starting it once per case would take long."""

    def run(*arguments: str | Path) -> Run:
        code = main(["validate", *map(str, arguments)])
        return Run(code, *capsys.readouterr())

    return run


def test_the_started_command_ends_with_the_code_of_its_verdict(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(a_manifest(updatePolicy={"updateMode": "Never"})))

    command = [str(Path(sys.executable).parent / "trimtab"), "validate", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 1
    assert "spec.updatePolicy.updateMode: Unsupported value" in run.stdout
    assert run.stderr == ""


def started(given: bytes, *words: str) -> Run:
    """Run the command in a process of its own, with something in its standard input."""
    command = [str(Path(sys.executable).parent / "trimtab"), "validate", *words]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_hyphen_is_the_standard_input() -> None:
    manifests = {"kind": "List", "items": [a_manifest("a"), a_manifest("b", updatePolicy={})]}
    run = started(yaml.safe_dump(manifests).encode(), "-", "--allow-overlapping-autoscalers")

    assert (run.returncode, run.stderr) == (1, "")
    error, _, summary = run.stdout.splitlines()
    assert error.startswith('standard input: VerticalPodAutoscaler "default/b": error: ')
    assert summary == "2 autoscalers, 1 error, 1 warning"


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        pytest.param(b"", 1, "standard input: error: there is no VerticalPodAutoscaler", id="none"),
        pytest.param(b"[", 2, "trimtab: standard input is not valid YAML or JSON", id="no YAML"),
        pytest.param(b"\xff", 2, "trimtab: standard input is not valid YAML", id="no UTF-8"),
    ],
)
def test_a_standard_input_without_autoscalers_is_refused(
    given: bytes, code: int, told: str
) -> None:
    run = started(given, "-")

    assert run.returncode == code
    assert (run.stdout + run.stderr).startswith(told)
    assert "Traceback" not in run.stderr


def test_a_closed_standard_input_is_one_line() -> None:
    trimtab = Path(sys.executable).parent / "trimtab"
    command = ["sh", "-c", f"exec {trimtab} validate - <&-"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 2
    assert run.stderr.startswith("trimtab: cannot read standard input: standard input is closed; ")


@pytest.mark.parametrize(
    ("flag", "hint"),
    [("--feature-gate=A=true", "; did you mean --feature-gates?"), ("-x", ""), ("--bogus", "")],
)
def test_a_flag_that_is_unknown_is_no_file(validate: Validate, flag: str, hint: str) -> None:
    run = validate("some.yaml", flag)

    name = flag.partition("=")[0]
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"trimtab: flag {name} is unknown{hint}; see trimtab validate --help\n"


def test_a_policy_that_another_one_hides_is_named_by_a_fresh_process() -> None:
    policies = [{"containerName": "app", "maxAllowed": {"cpu": cpu}} for cpu in ("1", "2")]
    manifest = a_manifest(resourcePolicy={"containerPolicies": policies})
    run = started(json.dumps(manifest).encode(), "-")

    assert run.returncode == 0
    warning, _ = run.stdout.splitlines()
    assert warning == (
        'standard input: VerticalPodAutoscaler "default/web": warning: '
        "spec.resourcePolicy.containerPolicies[1]: has no effect: "
        'containerPolicies[0] names "app" too, and the first one counts'
    )


def test_a_good_manifest_ends_with_0(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(a_manifest()))

    run = validate(file)

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "1 autoscaler, 0 errors, 0 warnings\n"


def test_json_is_read_as_well(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.json"
    file.write_text(json.dumps({"kind": "List", "items": [a_manifest("a")]}, indent=2))

    assert validate(file).stdout == "1 autoscaler, 0 errors, 0 warnings\n"


def test_errors_and_warnings_are_printed_with_file_object_and_path(
    validate: Validate, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    policy = {"updateMode": "Auto", "minReplicas": 0}
    file.write_text(yaml.safe_dump(a_manifest(updatePolicy=policy)))

    run = validate(file)

    assert run.returncode == 1
    error, warning, summary = run.stdout.splitlines()
    assert error == (
        f'{file}: VerticalPodAutoscaler "default/web": error: '
        "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive"
    )
    assert warning.startswith(
        f'{file}: VerticalPodAutoscaler "default/web": warning: spec.updatePolicy: "Auto" mode'
    )
    assert summary == "1 autoscaler, 1 error, 1 warning"


def test_warnings_alone_end_with_0(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(a_manifest(updatePolicy={"updateMode": "Auto"})))

    assert validate(file).returncode == 0


def test_autoscalers_of_different_files_are_checked_against_each_other(
    validate: Validate, tmp_path: Path
) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(yaml.safe_dump(a_manifest(file.stem)))

    refused = validate(*files)
    allowed = validate(*files, "--allow-overlapping-autoscalers")

    assert refused.returncode == 1
    assert 'b.yaml: VerticalPodAutoscaler "default/b": error: spec.selector:' in refused.stdout
    assert allowed.returncode == 0
    assert 'b.yaml: VerticalPodAutoscaler "default/b": warning: spec.selector:' in allowed.stdout


def test_other_documents_of_a_file_are_skipped(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    documents = [{"kind": "Deployment", "spec": {"replicas": 0}}, None, a_manifest()]
    file.write_text(yaml.safe_dump_all(documents))

    assert validate(file).stdout == "1 autoscaler, 0 errors, 0 warnings\n"


def test_an_unquoted_off_is_explained(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        yaml.safe_dump(a_manifest(updatePolicy={"updateMode": "Off"})).replace("'Off'", "Off")
    )

    run = validate(file)

    assert run.returncode == 1
    assert 'in YAML write "Off" in quotes' in run.stdout


def test_a_timestamp_in_the_manifest_stays_text(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    manifest = a_manifest()
    manifest["metadata"]["creationTimestamp"] = "STAMP"
    file.write_text(yaml.safe_dump(manifest).replace("STAMP", "2024-01-01T00:00:00Z"))

    assert validate(file).returncode == 0


def test_feature_gates_are_those_of_the_admission_controller(
    validate: Validate, tmp_path: Path
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(a_manifest(**with_boost(type="Factor", factor=2))))

    run = validate(file, "--feature-gates=CPUStartupBoost=false")

    assert run.returncode == 1
    assert "enable feature gate CPUStartupBoost" in run.stdout


def test_f46_an_unknown_feature_gate_is_a_warning(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(a_manifest()))

    run = validate(file, "--feature-gates=InPlaceOrRecreate=true")

    assert run.returncode == 0
    assert run.stderr == (
        "trimtab: feature gate InPlaceOrRecreate is unknown or retired and is ignored\n"
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        pytest.param(b"a: b: c", "line 1, column 5", id="no YAML"),
        pytest.param(b"a: [", "line 2, column 1", id="an unfinished list"),
        pytest.param(b"\xff\xfe\xfa", "no UTF-8 text", id="no text"),
        pytest.param(b"a: .nan", "not valid YAML or JSON", id="not a number"),
        pytest.param(b"a: !!set {b}", "not valid YAML or JSON", id="what JSON has no word for"),
        pytest.param(b"a: !!python/none x", "tag", id="a foreign tag"),
        pytest.param(b"just text", "not a Kubernetes object", id="a bare word"),
        pytest.param(b"- a\n- b", "not a Kubernetes object", id="a bare list"),
    ],
)
def test_a_file_that_cannot_be_understood_is_one_line_and_code_2(
    validate: Validate, tmp_path: Path, content: bytes, named: str
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(content)

    run = validate(file)

    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert str(file) in run.stderr
    assert named in run.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param("[" * 100_000, "lists and maps are nested more than 200 deep", id="JSON"),
        pytest.param("- " * 100_000, "lists and maps are nested more than 200 deep", id="YAML"),
        pytest.param(a_bomb(), "aliases expand to more than 10,000,000 values", id="a bomb"),
        pytest.param("a: &a {<<: *a}", "the alias *a stands for itself", id="a circle"),
    ],
)
@pytest.mark.parametrize(
    "words", [["validate"], ["checkpoint", "import"], ["get", "--kubeconfig"]], ids=" ".join
)
def test_files_that_would_crash_or_stall_a_loader_are_not_loaded(
    tmp_path: Path, content: str, told: str, words: list[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(content)

    command = [str(Path(sys.executable).parent / "trimtab"), *words, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)

    assert run.returncode == (1 if "--kubeconfig" in words else 2)
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert str(file) in run.stderr
    assert told in run.stderr


@pytest.mark.parametrize("words", [["validate"], ["get", "--kubeconfig"]], ids=" ".join)
def test_an_endless_file_is_not_read_to_its_end(words: list[str]) -> None:
    command = [str(Path(sys.executable).parent / "trimtab"), *words, "/dev/zero"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == (1 if "--kubeconfig" in words else 2)
    assert "more than" in run.stderr
    assert run.stderr.count("\n") == 1


def test_manifests_may_use_aliases(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    labels = {"team": "shop"}
    manifest = a_manifest()
    manifest["metadata"] |= {"labels": labels, "annotations": labels}
    file.write_text(yaml.safe_dump(manifest))

    assert "*id001" in file.read_text()
    assert validate(file).stdout == "1 autoscaler, 0 errors, 0 warnings\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("missing.yaml", "No such file or directory", id="a missing file"),
        pytest.param(".", "Is a directory", id="a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_code_2(
    validate: Validate, tmp_path: Path, name: str, reason: str
) -> None:
    run = validate(tmp_path / name)

    assert run.returncode == 2
    assert run.stderr.startswith(f"trimtab: cannot read {tmp_path / name}: {reason}; see ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="an empty file"),
        pytest.param("kind: Deployment\napiVersion: apps/v1", id="another kind"),
        pytest.param("kind: List\nitems: []", id="an empty list"),
    ],
)
def test_files_without_any_autoscaler_do_not_pass(
    validate: Validate, tmp_path: Path, content: str
) -> None:
    """A gate that was given the wrong file would be green for ever."""
    file = tmp_path / "empty.yaml"
    file.write_text(content)

    run = validate(file)

    assert run.returncode == 1
    assert run.stdout == (
        f"{file}: error: there is no VerticalPodAutoscaler in it\n"
        "0 autoscalers, 1 error, 0 warnings\n"
    )


def test_a_file_of_other_kinds_passes_beside_one_with_an_autoscaler(
    validate: Validate, tmp_path: Path
) -> None:
    files = [tmp_path / "web.yaml", tmp_path / "deployment.yaml"]
    files[0].write_text(yaml.safe_dump(a_manifest()))
    files[1].write_text("kind: Deployment\napiVersion: apps/v1")

    run = validate(*files)

    assert (run.returncode, run.stdout) == (0, "1 autoscaler, 0 errors, 0 warnings\n")


@pytest.mark.parametrize("kind", ["VerticalPodAutoscalr", "verticalpodautoscaler", None])
def test_a_mistyped_kind_is_an_error_and_hides_behind_no_other_object(
    tmp_path: Path, kind: str | None
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump_all([a_manifest("a"), a_manifest("b") | {"kind": kind}]))

    command = [str(Path(sys.executable).parent / "trimtab"), "validate", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 1
    assert f"{file}: error: kind: Unsupported value: " in run.stdout
    assert 'supported values: "VerticalPodAutoscaler"' in run.stdout
    assert run.stdout.endswith("1 autoscaler, 1 error, 0 warnings\n")


def test_checkpoints_of_the_same_group_are_skipped(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    checkpoint = {
        "kind": "VerticalPodAutoscalerCheckpoint",
        "apiVersion": "autoscaling.k8s.io/v1",
    }
    file.write_text(yaml.safe_dump_all([a_manifest(), checkpoint]))

    assert validate(file).returncode == 0
