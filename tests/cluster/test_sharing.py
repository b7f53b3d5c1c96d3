from dataclasses import replace

import pytest
from makers import NOW, a_container, a_pod, amounts
from wire_examples import POD, encoded

from trimtab.api.pods import decode_pod
from trimtab.cluster.sharing import decode_thrifty_pod, share_parts
from trimtab.core.pods import Allocation, OwnerReference, Pod, Termination


def test_a_thrifty_pod_is_the_same_pod_but_for_annotations_of_others() -> None:
    whole = decode_pod(encoded(POD))

    assert decode_thrifty_pod(encoded(POD)) == replace(
        whole, annotations={}, has_empty_annotations=True
    )


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(Pod("default", "bare"), id="a pod of which nothing is known"),
        pytest.param(a_pod(owner=None), id="a pod of nobody"),
        pytest.param(
            a_pod(
                a_container(requests={}, limits=amounts(1)),
                a_container("b", status=Allocation(amounts(1, 2), None)),
                a_container("c", last_termination=Termination("OOMKilled", NOW, NOW)),
            ),
            id="containers with and without resources",
        ),
    ],
)
def test_sharing_changes_nothing_of_what_deciders_read(pod: Pod) -> None:
    assert share_parts(pod) == pod


def test_our_own_annotations_are_kept() -> None:
    pod = a_pod(annotations={"vpaObservedContainers": "app", "checksum/config": "x" * 64})

    kept = share_parts(pod)

    assert kept.annotations == {"vpaObservedContainers": "app"}
    assert not kept.has_empty_annotations


@pytest.mark.parametrize(
    "name", ["cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"]
)
def test_annotations_that_keep_a_pod_from_eviction_are_kept(name: str) -> None:
    assert share_parts(a_pod(annotations={name: "x", "note": "y"})).annotations == {name: "x"}


@pytest.mark.parametrize(
    ("annotations", "is_there"),
    [
        pytest.param({}, False, id="no map at all"),
        pytest.param({"note": "x"}, True, id="a map of others"),
    ],
)
def test_it_is_still_known_whether_a_patch_must_make_the_map(
    annotations: dict[str, str], *, is_there: bool
) -> None:
    assert share_parts(a_pod(annotations=annotations)).has_empty_annotations is is_there


def test_pods_of_one_workload_share_labels_owner_and_resources() -> None:
    pods = []
    for name in ("one", "two"):
        owner = OwnerReference("ReplicaSet", "web-1", "apps/v1", "u")
        container = a_container(requests=amounts(1, 2), status=Allocation(amounts(1, 2)))
        pods.append(share_parts(a_pod(container, name=name, labels={"app": "web"}, owner=owner)))
    one, two = pods

    assert one.labels is two.labels
    assert one.owner is two.owner
    assert one.containers[0].spec is two.containers[0].spec
    assert one.containers[0].status is two.containers[0].status
