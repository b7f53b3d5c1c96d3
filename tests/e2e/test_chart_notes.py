"""Notes that the chart prints after an installation: true for the given values."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from e2e.chart_stage import CASES, Json
from e2e.conftest import Bring

from rig import chart, programs

pytestmark = pytest.mark.e2e

WITHOUT = {name: {"enabled": False} for name in ("recommender", "updater", "admissionController")}
_TEMPLATE = '{notes: {{ include "test.notes" . | toJson }}}'


@pytest.fixture(scope="module", autouse=True)
def _helm(bring: Bring) -> None:
    bring("helm")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with its notes as an object: helm shows notes of a real installation only."""
    copy = tmp_path_factory.mktemp("notes") / "trimtab"
    shutil.copytree(chart.CHART, copy)
    text = (copy / "templates/NOTES.txt").read_text(encoding="utf-8")
    defined = f'{{{{ define "test.notes" -}}}}\n{text}{{{{- end }}}}\n'
    (copy / "templates/_test.tpl").write_text(defined, encoding="utf-8")
    (copy / "templates/notes.yaml").write_text(_TEMPLATE, encoding="utf-8")
    return copy


def notes_of(copied: Path, values: Json, namespace: str = "system") -> str:
    """The notes with the lines that belong together in one."""
    where = ["--namespace", namespace, "--kube-version", chart.KUBERNETES, "--values", "-"]
    command = [str(programs.find("helm")), "template", "release", str(copied), *where]
    run = subprocess.run(
        [*command, "--show-only", "templates/notes.yaml"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    notes: str = yaml.safe_load(run.stdout)["notes"]
    return notes


NO_ADMISSION = "This release has no admission controller"
NO_UPDATER = "This release has no updater: pods that run stay as they are"
NO_RECOMMENDER = "This release has no recommender: recommendations come from another one"
NO_WAIT = "the updater does not wait for one"
KEPT = "leaves the CRDs and all autoscalers where they are"
DELETED = "deletes the CRDs, and with them all autoscalers"
NO_EFFECT = "admissionController.certGen and admissionController.tls.secretName have no effect"
NOT_REGISTERED = "The admission controller is not registered"
FAILS = "No pod is created while no copy of the admission controller answers"
PAUSED = "The updater is paused by updater.extraArgs"
NO_ROLES = "Roles and bindings are not part of this release"
NO_CRDS = "The CRDs are not part of this release"
ANNOTATE = "annotate statefulset my-database trimtab.dev/role-lease"
MAKE = "Make an autoscaler"
ALL = (
    *(NO_ADMISSION, NO_UPDATER, NO_RECOMMENDER, NO_WAIT, KEPT, DELETED, NO_EFFECT, NOT_REGISTERED),
    *(FAILS, PAUSED, NO_ROLES, NO_CRDS, ANNOTATE, MAKE),
)
_NAMESPACED = CASES["one-namespace"]
_OWN_KEYS = {"certGen": {"enabled": True}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({}, {MAKE, KEPT}, id="defaults"),
        pytest.param({"crds": {"keep": False}}, {MAKE, DELETED}, id="CRDs that go"),
        pytest.param({"crds": {"enabled": False}}, {MAKE, NO_CRDS}, id="CRDs that are there"),
        pytest.param({"rbac": {"create": False}}, {MAKE, KEPT, NO_ROLES}, id="own roles"),
        pytest.param(
            {"admissionController": {"enabled": False}},
            {MAKE, KEPT, NO_ADMISSION},
            id="no admission controller",
        ),
        pytest.param(
            {
                "admissionController": {"enabled": False},
                "updater": {"extraArgs": ["--use-admission-controller-status=false"]},
            },
            {MAKE, KEPT, NO_ADMISSION, NO_WAIT},
            id="no admission controller, and the updater does not ask for one",
        ),
        pytest.param(
            {
                "admissionController": {"enabled": False},
                "updater": {
                    "extraArgs": [
                        "--use-admission-controller-status=false",
                        "--use-admission-controller-status",
                    ]
                },
            },
            {MAKE, KEPT, NO_ADMISSION},
            id="the last word counts",
        ),
        pytest.param({"updater": {"enabled": False}}, {MAKE, KEPT, NO_UPDATER}, id="no updater"),
        pytest.param(
            {"recommender": {"enabled": False}}, {MAKE, KEPT, NO_RECOMMENDER}, id="no recommender"
        ),
        pytest.param(
            {"updater": {"extraArgs": {"pause": True}}}, {MAKE, KEPT, PAUSED}, id="paused"
        ),
        pytest.param({"updater": {"extraArgs": {"pause": False}}}, {MAKE, KEPT}, id="not paused"),
        pytest.param(
            {"roles": {"enabled": True}}, {MAKE, KEPT, ANNOTATE}, id="with the role keeper"
        ),
        pytest.param(
            {**WITHOUT, "roles": {"enabled": True}}, {KEPT, ANNOTATE}, id="only the role keeper"
        ),
        pytest.param({**WITHOUT}, {KEPT}, id="only the CRDs"),
        pytest.param(
            {"admissionController": {"mutatingWebhookConfiguration": {"failurePolicy": "Fail"}}},
            {MAKE, KEPT, FAILS},
            id="failure policy",
        ),
        pytest.param(
            {"admissionController": _OWN_KEYS}, {MAKE, KEPT, NO_EFFECT}, id="values without effect"
        ),
        pytest.param(
            _NAMESPACED, {MAKE, NO_CRDS, NO_ADMISSION, NO_WAIT}, id="one namespace, no webhook"
        ),
        pytest.param(
            CASES["webhook-of-one"],
            {MAKE, NO_CRDS, NOT_REGISTERED, ANNOTATE},
            id="one namespace with a webhook",
        ),
    ],
)
def test_notes_say_what_follows_from_the_values_and_nothing_else(
    copied: Path, values: Json, said: set[str]
) -> None:
    notes = notes_of(copied, values)

    assert {each for each in ALL if each in notes} == said


@pytest.mark.parametrize("name", sorted(CASES))
def test_notes_name_exactly_the_components_that_are_installed(copied: Path, name: str) -> None:
    notes = notes_of(copied, CASES[name], name)
    documents = yaml.safe_load_all(
        chart.render(namespace=name, release="release", values=json.dumps(CASES[name]))
    )
    installed = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]
        for each in documents
        if each and each["kind"] == "Deployment"
    }
    named = {
        line.strip().partition(":")[0]: line
        for line in notes.partition("1. ")[0].splitlines()
        if line.startswith("  ")
    }

    assert named.keys() == installed.keys()
    for component, spec in installed.items():
        (container,) = spec["template"]["spec"]["containers"]
        assert f" {spec['replicas']} cop" in named[component]
        assert f" of {container['image']}" in named[component]


@pytest.mark.parametrize(
    ("values", "namespace", "lines"),
    [
        pytest.param({}, "my-namespace", ["trimtab doctor"], id="all namespaces"),
        pytest.param(_NAMESPACED, "system", ["trimtab doctor -n system"], id="its own"),
        pytest.param(
            {**_NAMESPACED, "rbac": {"scope": "namespace", "namespace": "shop"}},
            "shop",
            ["trimtab doctor -n shop", "for the namespace shop alone"],
            id="another one",
        ),
        pytest.param(
            {"recommender": {"extraArgs": ["--vpa-object-namespace", "shop"]}},
            "shop",
            ["trimtab doctor", "for the namespace shop alone"],
            id="one by a flag",
        ),
    ],
)
def test_notes_make_the_autoscaler_where_the_recommender_looks(
    copied: Path, values: Json, namespace: str, lines: list[str]
) -> None:
    notes = notes_of(copied, values)
    example = notes.partition("<<EOF\n")[2].partition("EOF")[0]

    assert yaml.safe_load(example)["metadata"]["namespace"] == namespace
    assert f"trimtab get -n {namespace}\n" in notes
    assert all(f"{line}\n" in f"{notes}\n" for line in lines)


@pytest.mark.parametrize(
    ("admission", "words"),
    [
        pytest.param({}, ": the admission controller makes and renews its own", id="its own"),
        pytest.param({"enabled": False}, "have no effect.", id="no admission controller"),
        pytest.param(
            {"tls": {"existingSecret": "keys"}},
            ": the certificate comes from the Secret keys",
            id="files",
        ),
        pytest.param(
            {"certManager": {"enabled": True, "createSelfSignedIssuer": {"enabled": True}}},
            ": the certificate comes from cert-manager",
            id="cert-manager",
        ),
    ],
)
def test_notes_say_where_the_certificate_really_comes_from(
    copied: Path, admission: Json, words: str
) -> None:
    assert words in notes_of(copied, {"admissionController": {**_OWN_KEYS, **admission}})


@pytest.mark.parametrize("name", sorted(CASES))
def test_steps_are_counted_without_a_gap(copied: Path, name: str) -> None:
    lines = notes_of(copied, CASES[name], name).splitlines()
    numbers = [int(line[0]) for line in lines if line[:1].isdigit()]

    assert numbers == list(range(1, len(numbers) + 1))
