"""What a pod's spec says about nodes, as it stands on the wire."""

from typing import Any

import pytest
from support.makers.wire_examples import encoded

from trimtab.api.kinds.pods import decode_pod
from trimtab.core.model.nodes import NodeExpression, NodeTerm, Placement, Toleration
from trimtab.core.model.pods import Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EVERY_POD = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
]


def decoded(**spec: Any) -> Pod:
    return decode_pod(encoded({"spec": spec}))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"tolerations": EVERY_POD}, id="what every pod tolerates"),
        pytest.param({"affinity": {}, "nodeSelector": {}, "tolerations": []}, id="empty"),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1}]}}}, id="a preference"
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
            id="away from its siblings",
        ),
    ],
)
def test_most_pods_say_nothing_that_counts_about_nodes(spec: dict[str, Any]) -> None:
    assert decoded(**spec).placement is None


def test_all_that_is_demanded_of_nodes_is_decoded() -> None:
    expression = {"key": "pool", "operator": "In", "values": ["a", "b"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["one"]}
    terms = [{"matchExpressions": [expression]}, {"matchFields": [field]}, {}]
    pod = decoded(
        nodeSelector={"zone": "a", "disk": "fast"},
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
        tolerations=[*EVERY_POD, {"key": "gpu", "value": "yes"}, {"operator": "Exists"}],
    )

    assert pod.placement == Placement(
        (("disk", "fast"), ("zone", "a")),
        (
            NodeTerm((NodeExpression("pool", "In", ("a", "b")),)),
            NodeTerm(fields=(NodeExpression("metadata.name", "In", ("one",)),)),
            NodeTerm(),
        ),
        (Toleration("gpu", value="yes"), Toleration(operator="Exists")),
    )


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    "terms",
    [
        pytest.param({REQUIRED: [{"namespaces": ["other"]}]}, id="by name"),
        pytest.param({REQUIRED: [{"namespaceSelector": {}}]}, id="by labels"),
        pytest.param(
            {PREFERRED: [{"weight": 1, "podAffinityTerm": {"namespaces": ["other"]}}]}, id="rather"
        ),
    ],
)
def test_an_affinity_that_looks_at_other_namespaces_is_seen(
    kind: str, terms: dict[str, Any]
) -> None:
    placement = decoded(affinity={kind: terms}).placement

    assert placement is not None
    assert placement.crosses_namespaces


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, 0, id="no class"),
        pytest.param({"priority": 1000}, 1000, id="a class"),
        pytest.param({"priority": -5}, -5, id="a low one"),
        pytest.param(
            {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}, 1000, id="it preempts"
        ),
        pytest.param({"priority": 1000, "preemptionPolicy": "Never"}, 0, id="it never preempts"),
    ],
)
def test_the_priority_by_which_a_pod_preempts_others_is_decoded(
    spec: dict[str, object], expected: int
) -> None:
    assert decoded(**spec).preemption_priority == expected


def test_the_priority_and_the_deadline_of_a_pod_are_decoded() -> None:
    pod, plain = decoded(priorityClassName="high", activeDeadlineSeconds=60), decoded()

    assert (pod.priority_class, pod.has_deadline) == ("high", True)
    assert (plain.priority_class, plain.has_deadline) == ("", False)


@pytest.mark.parametrize(
    ("spec", "condition", "is_stuck"),
    [
        pytest.param({}, {"status": "False", "reason": "Unschedulable"}, True, id="no room"),
        pytest.param(
            {"nodeName": "one"},
            {"status": "False", "reason": "Unschedulable"},
            False,
            id="it has a node by now",
        ),
        pytest.param({}, {"status": "False", "reason": "SchedulingGated"}, False, id="not tried"),
        pytest.param({}, {"status": "True"}, False, id="scheduled"),
    ],
)
def test_a_pod_tells_since_when_it_finds_no_room(
    spec: dict[str, Any], condition: dict[str, str], *, is_stuck: bool
) -> None:
    told = {"type": "PodScheduled", "lastTransitionTime": "2026-08-22T12:00:00Z", **condition}
    pod = decode_pod(encoded({"spec": spec, "status": {"conditions": [told]}}))

    assert (pod.unschedulable_since is not None) is is_stuck
