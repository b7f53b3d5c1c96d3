"""The work for one review is bounded, whatever a tenant sends."""

from collections.abc import Callable

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.reviews import Json, Webhook, a_review, an_autoscaler_object, patch_of
from support.makers.worst_reviews import (
    NAMESPACE,
    POD_RESOURCES,
    a_large_autoscaler,
    a_large_pod,
    a_large_selector,
    cpu_seconds,
    store,
)

from trimtab.admission.admit import AdmitOutcome
from trimtab.api.kinds.autoscaler_wire import decode_wire
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.validation.selectors import overlaps
from trimtab.api.wire.codec import encode
from trimtab.core.model import size_bounds
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.admission_patch import size_pod
from trimtab.core.sizing.boost_room import BoostRoom

BOOST = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}
FEW, MANY = 250, 2000
VALUES = 3000
MOST_GROWTH = 2 * MANY / FEW
"""Twice what linear work takes; work that grows with the square takes eight times that."""


def sizing_work(
    containers: int,
    room: BoostRoom,
    autoscaler_spec: Json,
    pod_spec: Json,
) -> Callable[[], object]:
    """The work of sizing a pod with so many containers, each with a policy of its own."""
    pod = decode_pod(encode(a_large_pod(containers, **pod_spec)))
    autoscaler = decode_autoscaler(encode(a_large_autoscaler(containers, **autoscaler_spec)))
    return lambda: size_pod(pod, autoscaler, gates=FeatureGates(), room=room)


@pytest.mark.parametrize(
    ("room", "autoscaler_spec", "pod_spec"),
    [
        pytest.param(BoostRoom(), {}, {}, id="a policy for every container"),
        pytest.param(BoostRoom(), {}, {"resources": POD_RESOURCES}, id="resources of the pod"),
        pytest.param(BoostRoom(), BOOST, {}, id="a boost for every container"),
        pytest.param(
            BoostRoom([LimitRangeItem(LimitRangeType.POD, max={Resource.CPU: 300})]),
            BOOST,
            {},
            id="boosts that share little room",
        ),
    ],
)
def test_the_work_for_a_pod_grows_no_faster_than_its_containers(
    room: BoostRoom, autoscaler_spec: Json, pod_spec: Json
) -> None:
    few = cpu_seconds(sizing_work(FEW, room, autoscaler_spec, pod_spec))
    many = cpu_seconds(sizing_work(MANY, room, autoscaler_spec, pod_spec))

    assert many < few * MOST_GROWTH


def a_selecting(name: str, values: int) -> Json:
    found = an_autoscaler_object(name, "web", selector=a_large_selector(values, own=name))
    found["metadata"]["namespace"] = NAMESPACE
    return found


def test_selectors_of_stored_siblings_are_parsed_once() -> None:
    siblings = [
        decode_autoscaler(encode(a_selecting(f"sibling-{number}", VALUES))) for number in range(20)
    ]
    new = decode_wire(encode(a_selecting("new", VALUES)))
    alone = cpu_seconds(lambda: overlaps(new, None, siblings[:1]))

    assert overlaps(new, None, siblings) == []
    assert cpu_seconds(lambda: overlaps(new, None, siblings)) < 3 * alone


def test_a_stored_sibling_overlaps_as_the_same_sibling_on_the_wire_does() -> None:
    new, other = a_selecting("new", 1), a_selecting("other", 1)
    other["spec"]["selector"]["matchExpressions"][1]["values"] = ["new", "other"]
    wire, stored = decode_wire(encode(other)), decode_autoscaler(encode(other))

    found = overlaps(decode_wire(encode(new)), None, [stored])

    assert found
    assert found == overlaps(decode_wire(encode(new)), None, [wire])


def node_affinity(terms: int, values: int = 1) -> Json:
    chosen = [f"node-{number}" for number in range(values)]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": chosen}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}] * terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def with_annotations(pod: Json, size: int) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x" * (size - 4)}}}


@pytest.mark.parametrize(
    ("pod", "excess"),
    [
        pytest.param(
            a_large_pod(size_bounds.MAX_CONTAINERS + 1),
            "201 containers; at most 200 are sized",
            id="containers",
        ),
        pytest.param(
            a_large_pod(100, initContainers=[{"name": str(number)} for number in range(101)]),
            "201 containers; at most 200 are sized",
            id="init containers, too",
        ),
        pytest.param(
            a_large_pod(1, affinity=node_affinity(terms=51)),
            "107 demands on nodes; at most 100 are looked at",
            id="terms of an affinity",
        ),
        pytest.param(
            a_large_pod(1, affinity=node_affinity(terms=1, values=2000)),
            "202 demands on nodes; at most 100 are looked at",
            id="values of an affinity",
        ),
        pytest.param(
            a_large_pod(1, nodeSelector={str(number): "" for number in range(101)}),
            "101 demands on nodes; at most 100 are looked at",
            id="labels of nodes",
        ),
        pytest.param(
            a_large_pod(1, tolerations=[{"key": "a"}] * 101),
            "101 demands on nodes; at most 100 are looked at",
            id="tolerations",
        ),
        pytest.param(
            a_large_pod(1, tolerations=[{}] * 101),
            "101 demands on nodes; at most 100 are looked at",
            id="the shortest tolerations",
        ),
        pytest.param(
            with_annotations(a_large_pod(1), 256 * 1024 - 8),
            "262144 bytes of annotations; more than 261120 leave no room for ours",
            id="annotations",
        ),
    ],
)
def test_a_pod_that_is_too_large_is_admitted_unchanged_with_a_warning(
    pod: Json, excess: str
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        store(cluster, a_large_autoscaler(2))
        webhook = Webhook(cluster)

        response = webhook.ask(a_review(pod))

        assert response["allowed"]
        assert "patch" not in response
        assert response["warnings"] == [f"the pod keeps its own resources: it has {excess}"]
        assert webhook.tally.pods == {AdmitOutcome.TOO_LARGE: 1}

    run_virtually(scene())


def test_a_pod_at_the_bounds_is_sized() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        store(cluster, a_large_autoscaler(size_bounds.MAX_CONTAINERS))
        pod = a_large_pod(size_bounds.MAX_CONTAINERS, affinity=node_affinity(terms=25, values=1))

        patch = patch_of(Webhook(cluster).ask(a_review(pod)))

        last = f"/spec/containers/{size_bounds.MAX_CONTAINERS - 1}/resources/requests/cpu"
        assert {"op": "add", "path": last, "value": "100m"} in patch

    run_virtually(scene())


def test_a_large_pod_without_an_autoscaler_is_no_trouble() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        webhook = Webhook(cluster)

        response = webhook.ask(a_review(a_large_pod(size_bounds.MAX_CONTAINERS + 1)))

        assert response.keys() == {"allowed", "uid"}

    run_virtually(scene())
