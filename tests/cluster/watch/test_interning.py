import json
import tracemalloc
from functools import partial

import pytest
from msgspec import structs
from support.fakes.clocks import StillClock
from support.makers.records import MIB, NOW, a_container, a_pod, amounts
from support.makers.wire_examples import CRON_JOB, DEPLOYMENT, POD, Json, encoded

from trimtab.api.kinds.pods import decode_pod
from trimtab.api.kinds.workloads import decode_workload
from trimtab.api.wire.watch_events import decode_entry
from trimtab.cluster.watch.interning import decode_thrifty_pod, decode_thrifty_workload, share_parts
from trimtab.cluster.watch.store import Reader, Writer, open_store
from trimtab.core.model.pods import Allocation, Pod, Termination
from trimtab.core.model.workloads import Workload


def test_a_thrifty_pod_is_the_same_pod_but_for_annotations_of_others() -> None:
    whole = decode_pod(encoded(POD))

    assert decode_thrifty_pod(encoded(POD)) == structs.replace(
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


def encode_pod(name: str) -> bytes:
    document: Json = json.loads(encoded(POD))
    document["metadata"]["name"] = name
    return encoded(document)


def test_pods_of_one_workload_share_labels_owner_and_resources() -> None:
    one, two = (decode_thrifty_pod(encode_pod(name)) for name in ("one", "two"))

    assert (one.name, two.name) == ("one", "two")
    assert one.labels is two.labels
    assert one.owner is two.owner
    assert one.containers[0].spec is two.containers[0].spec
    assert one.containers[0].status is two.containers[0].status


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param("Deployment", DEPLOYMENT, id="a workload with an owner and a selector"),
        pytest.param("CronJob", CRON_JOB, id="one that selects by labels of its template"),
        pytest.param("Deployment", {"metadata": {"name": "bare"}}, id="one that says nothing"),
    ],
)
def test_a_thrifty_workload_is_the_same_workload(kind: str, document: Json) -> None:
    data = encoded(document)

    assert decode_thrifty_workload(kind, data) == decode_workload(kind, data)


def a_replica_set(deployment: int, revision: int) -> bytes:
    """One of the old revisions of a Deployment, as large as they are."""
    labels = {"app": f"web-{deployment}", "pod-template-hash": f"{revision:08x}"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{deployment}"}
    variables = [{"name": f"VARIABLE_{number}", "value": "x" * 50} for number in range(20)]
    return encoded(
        {
            "metadata": {
                "namespace": f"team-{deployment % 50}",
                "name": f"web-{deployment}-{revision:08x}",
                "uid": f"{deployment:08d}-0000-0000-0000-{revision:012d}",
                "labels": labels,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 2000},
                "ownerReferences": [{**owner, "uid": f"{deployment:036d}", "controller": True}],
            },
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"spec": {"containers": [{"name": "app", "env": variables}]}},
            },
        }
    )


def a_store() -> tuple[Writer[Workload], Reader[Workload]]:
    return open_store(StillClock())


def test_f36_eighty_thousand_replica_sets_need_little_memory() -> None:
    count = 4_000
    decode = partial(decode_thrifty_workload, "ReplicaSet")
    tracemalloc.start()
    try:
        writer, reader = a_store()
        writer.replace(
            decode_entry(a_replica_set(number // 10, number % 10), decode)
            for number in range(count)
        )
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(reader) == count
    assert held_bytes / count * 80_000 < 100 * MIB
    assert held_bytes / count < len(a_replica_set(1, 1)) / 3
