"""Which Deployments run a component of a vertical autoscaler, and what their pods complain of."""

import json
from typing import Any

import pytest

from trimtab.api.kinds.deployments import decode_component, with_pod
from trimtab.core.diagnosis.components import Component, Installed


def a_deployment(
    image: str, *words: str, labels: dict[str, str] | None = None, **spec: Any
) -> bytes:
    container = {"image": image, "command": words[:1], "args": words[1:]}
    pods = {"containers": [container], "serviceAccountName": "vpa"}
    return json.dumps(
        {
            "metadata": {"namespace": "kube-system", "name": "it", "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"app": "it"}},
                "template": {"spec": pods},
                **spec,
            },
            "status": {"readyReplicas": 1},
        }
    ).encode()


PART = {"app.kubernetes.io/part-of": "trimtab"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            a_deployment("registry.example/x/trimtab:1", "trimtab", "updater"),
            (Component.UPDATER, True),
            id="ours by its image",
        ),
        pytest.param(
            a_deployment("python", "/usr/bin/trimtab", "admission-controller", "--v=4"),
            (Component.ADMISSION, True),
            id="ours by its program",
        ),
        pytest.param(
            a_deployment("mirror/tt@sha256:00", "", "recommender", labels=PART),
            (Component.RECOMMENDER, True),
            id="ours by the chart's label",
        ),
        pytest.param(
            a_deployment("mirror/tt", labels={**PART, "app.kubernetes.io/component": "roles"}),
            (Component.ROLES, True),
            id="ours by two labels of the chart",
        ),
        pytest.param(
            a_deployment("registry.k8s.io/autoscaling/vpa-recommender:1.8.1"),
            (Component.RECOMMENDER, False),
            id="the original's",
        ),
        pytest.param(
            a_deployment("mirror:5000/vpa-admission-controller-arm64:1"),
            (Component.ADMISSION, False),
            id="the original's for one architecture",
        ),
        pytest.param(a_deployment("nginx", "nginx"), None, id="anything else"),
        pytest.param(a_deployment("x/trimtab", "trimtab", "demo"), None, id="another command"),
        pytest.param(b"{}", None, id="nothing at all"),
    ],
)
def test_components_are_known_by_image_program_or_label(
    data: bytes, expected: tuple[Component, bool] | None
) -> None:
    found = decode_component(data)

    assert (found and (found.component, found.is_ours)) == expected


def test_all_that_is_needed_of_a_component_is_read() -> None:
    words = ("trimtab", "updater", "--vpa-object-namespace=shop")

    assert decode_component(a_deployment("trimtab", *words, replicas=3)) == Installed(
        "kube-system",
        "it",
        Component.UPDATER,
        wanted=3,
        ready=1,
        account="vpa",
        labels={"app": "it"},
        watched="shop",
    )


def test_pods_tell_why_they_do_not_run_and_how_often_they_fell() -> None:
    status = {
        "restartCount": 7,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"reason": "OOMKilled"}},
    }
    pod = {"metadata": {"name": "it-1"}, "status": {"containerStatuses": [status]}}
    well = {"metadata": {"name": "it-2"}, "status": {"containerStatuses": [{"restartCount": 1}]}}
    sick = with_pod(Installed("kube-system", "it", Component.UPDATER), json.dumps(pod).encode())
    both = with_pod(sick, json.dumps(well).encode())

    assert both.troubles == ("it-1: CrashLoopBackOff", "it-1: OOMKilled")
    assert both.restarts == 7
