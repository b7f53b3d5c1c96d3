from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from support.makers.records import MIB, amounts

from trimtab.cli.errors import FailedError
from trimtab.cli.report.flags import PatchKind
from trimtab.cli.report.patches import draft_patches, write_patches
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import Allocation, ContainerKind, WorkloadName
from trimtab.core.report.sizes import ContainerSizing, Learned, WorkloadSizing


def _container(
    name: str = "app", kind: ContainerKind = ContainerKind.REGULAR, *, is_known: bool = True
) -> ContainerSizing:
    recommended = Allocation(amounts(587, 363 * MIB), amounts(memory=726 * MIB))
    return ContainerSizing(name, 1, {}, Allocation(), recommended if is_known else None, kind=kind)


def _workload(
    kind: str = "Deployment",
    name: str = "web",
    *containers: ContainerSizing,
    autoscaler: AutoscalerName | None = None,
    api_version: str = "",
) -> WorkloadSizing:
    return WorkloadSizing(
        WorkloadName("shop", kind, name), api_version, autoscaler, 1, containers or (_container(),)
    )


def _files(kind: PatchKind, *workloads: WorkloadSizing) -> dict[str, object]:
    return {file.path: yaml.safe_load(file.text) for file in draft_patches(workloads, kind).files}


def test_a_patch_holds_requests_and_limits_and_nothing_else() -> None:
    files = _files(PatchKind.KUSTOMIZE, _workload())
    resources = {
        "requests": {"cpu": "587m", "memory": "363Mi"},
        "limits": {"memory": "726Mi"},
    }

    assert files["shop/deployment-web.yaml"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"spec": {"containers": [{"name": "app", "resources": resources}]}}},
    }
    assert files["shop/kustomization.yaml"] == {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [
            {"path": "deployment-web.yaml", "target": {"kind": "Deployment", "name": "web"}}
        ],
    }


def test_sidecars_stay_in_their_own_list_and_the_template_of_a_cron_job_is_found() -> None:
    job = _workload("CronJob", "nightly", _container(), _container("log", ContainerKind.SIDECAR))
    patch = draft_patches([job], PatchKind.KUSTOMIZE).files[0]
    spec = yaml.safe_load(patch.text)["spec"]["jobTemplate"]["spec"]["template"]["spec"]

    assert [one["name"] for one in spec["containers"]] == ["app"]
    assert [one["name"] for one in spec["initContainers"]] == ["log"]


@pytest.mark.parametrize(
    ("kind", "workload", "reason"),
    [
        pytest.param(
            PatchKind.KUSTOMIZE,
            _workload("Rollout", api_version="argoproj.io/v1alpha1"),
            "kustomize cannot patch a Rollout",
            id="kustomize would replace the list of a kind that it does not know",
        ),
        pytest.param(
            PatchKind.KUSTOMIZE,
            _workload("Deployment", "web", _container(is_known=False)),
            "nothing is recommended",
            id="nothing is known",
        ),
        pytest.param(
            PatchKind.VPA,
            _workload(autoscaler=AutoscalerName("shop", "mine")),
            "it has the autoscaler mine",
            id="an autoscaler is there already",
        ),
        pytest.param(
            PatchKind.KUSTOMIZE,
            _workload(name="x/../../../home/me/.profile"),
            "it has no name of an object",
            id="an owner reference names a file elsewhere",
        ),
        pytest.param(
            PatchKind.VPA,
            _workload("../../Evil", api_version="evil.dev/v1"),
            "it has no name of an object",
            id="an owner reference has a kind that leads elsewhere",
        ),
        pytest.param(
            PatchKind.VPA, _workload("Pod"), "no autoscaler can be for it", id="a bare pod"
        ),
    ],
)
def test_what_has_no_file_is_told_with_the_reason(
    kind: PatchKind, workload: WorkloadSizing, reason: str
) -> None:
    patches = draft_patches([workload], kind)
    name = workload.workload

    assert patches.files == ()
    assert patches.left_out == (f"shop/{name.kind.lower()}/{name.name}: {reason}",)


def test_pods_of_different_sizes_cannot_be_had_from_one_template() -> None:
    leader = _workload(autoscaler=AutoscalerName("shop", "leader"))
    patches = draft_patches([leader, _workload()], PatchKind.KUSTOMIZE)

    assert patches.files == ()
    assert len(patches.left_out) == 2


def test_an_autoscaler_only_recommends_until_somebody_decides_otherwise() -> None:
    files = _files(PatchKind.VPA, _workload("Rollout", api_version="argoproj.io/v1alpha1"))

    assert files["shop/rollout-web.yaml"] == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"},
            "updatePolicy": {"updateMode": "Off"},
        },
    }


def test_autoscalers_of_two_workloads_of_one_name_have_names_of_their_own() -> None:
    patches = draft_patches([_workload(), _workload("StatefulSet")], PatchKind.VPA)
    names = [yaml.safe_load(file.text)["metadata"]["name"] for file in patches.files]

    assert names == ["deployment-web", "statefulset-web"]


def test_files_are_written_again_over_those_of_last_time(tmp_path: Path) -> None:
    patches = draft_patches([_workload()], PatchKind.KUSTOMIZE)
    write_patches(patches, tmp_path / "new")
    write_patches(patches, tmp_path / "new")

    assert sorted(path.name for path in (tmp_path / "new/shop").iterdir()) == [
        "deployment-web.yaml",
        "kustomization.yaml",
    ]


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param("kustomization.yaml", id="the folder belongs to an overlay"),
        pytest.param("deployment-web.yaml", id="the workload has a file of that name"),
    ],
)
def test_files_of_others_stay_and_nothing_is_written_beside_them(
    taken: str, tmp_path: Path
) -> None:
    own = tmp_path / "shop" / taken
    own.parent.mkdir()
    own.write_text("resources: [web.yaml]\n", encoding="utf-8")
    with pytest.raises(FailedError, match=rf"shop/{taken} there is not from a report; try another"):
        write_patches(draft_patches([_workload()], PatchKind.KUSTOMIZE), tmp_path)

    assert own.read_text(encoding="utf-8") == "resources: [web.yaml]\n"
    assert list(own.parent.iterdir()) == [own]


def test_a_patch_needs_history_of_each_container_published_or_not() -> None:
    day = timedelta(days=1)
    long = replace(_container(), learned=Learned(1440, day))
    short = replace(_container("log"), learned=Learned(9, timedelta(minutes=2, seconds=0.4)))
    workloads = [
        _workload("Deployment", "known", long),
        _workload("Deployment", "half", long, short),
        _workload("Deployment", "told", long, replace(short, is_published=True)),
        _workload("Deployment", "old", replace(long, is_published=True)),
    ]
    patches = draft_patches(workloads, PatchKind.KUSTOMIZE, day)

    assert [file.path for file in patches.files] == [
        "shop/deployment-known.yaml",
        "shop/deployment-old.yaml",
        "shop/kustomization.yaml",
    ]
    thin = "it has 2m of history, less than 24h (--allow-thin-data)"
    assert patches.left_out == (
        f"shop/deployment/half: {thin}",
        f"shop/deployment/told: {thin}",
    )


@pytest.mark.parametrize(
    ("learned", "confidence"),
    [
        pytest.param(Learned(), 0, id="nothing"),
        pytest.param(Learned(720, timedelta(hours=12)), 0.5, id="half a day"),
        pytest.param(Learned(144, timedelta(days=8)), 0.1, id="a sample an hour or so"),
        pytest.param(Learned(99999, timedelta(days=8)), 1, id="more than enough"),
    ],
)
def test_confidence_is_a_day_of_samples_one_a_minute(learned: Learned, confidence: float) -> None:
    assert learned.confidence == pytest.approx(confidence)
