"""Labels of pods that are gone, out of metrics that cannot spell them."""

import pytest

from trimtab.core.usage.history_samples import PastPod, PodTrace, list_owners, restore_pods


@pytest.mark.parametrize(
    ("told", "known", "expected"),
    [
        pytest.param({"app": "web"}, [], {"app": "web"}, id="a plain name stays as it is"),
        pytest.param(
            {"app_kubernetes_io_name": "web"},
            ["app.kubernetes.io/name", "app"],
            {"app.kubernetes.io/name": "web"},
            id="a known name is recognised without its dots",
        ),
        pytest.param(
            {"pod_template_hash": "abc"},
            ["pod-template-hash"],
            {"pod-template-hash": "abc"},
            id="a known name is recognised without its dashes",
        ),
        pytest.param(
            {"app_name": "web"},
            ["appName"],
            {"appName": "web"},
            id="a known name is recognised without its humps",
        ),
        pytest.param(
            {"a_b": "web"},
            ["a.b", "a-b"],
            {"a.b": "web", "a-b": "web"},
            id="what may be two names is taken for both",
        ),
    ],
)
def test_labels_come_back_under_the_names_that_are_known(
    told: dict[str, str], known: list[str], expected: dict[str, str]
) -> None:
    assert restore_pods([PodTrace("web-0", told, 0)], known) == {"web-0": PastPod(expected)}


def test_of_labels_that_changed_the_newest_count() -> None:
    traces = [
        PodTrace("web-0", {"app": "old"}, 1),
        PodTrace("web-0", {"app": "new"}, 3),
        PodTrace("web-0", {"app": "between"}, 2),
        PodTrace("web-1", {}, 2),
    ]

    assert restore_pods(traces, []) == {"web-0": PastPod({"app": "new"}), "web-1": PastPod()}


def test_owners_are_followed_to_the_last_and_not_in_circles() -> None:
    above = {
        ("ReplicaSet", "web-1"): ("Deployment", "web"),
        ("Job", "a"): ("Job", "b"),
        ("Job", "b"): ("Job", "a"),
    }

    assert list_owners(("ReplicaSet", "web-1"), above) == (
        ("ReplicaSet", "web-1"),
        ("Deployment", "web"),
    )
    assert list_owners(("DaemonSet", "log"), above) == (("DaemonSet", "log"),)
    assert list_owners(("Job", "a"), above) == (("Job", "a"), ("Job", "b"))
