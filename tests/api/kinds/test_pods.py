import sys
from datetime import UTC, datetime

import pytest
from support.makers.records import MIB, amounts
from support.makers.wire_examples import POD, Json, encoded

from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.times import ZERO_TIME
from trimtab.core.model.nodes import NodeExpression, NodeTerm, Placement, Toleration
from trimtab.core.model.pods import (
    Allocation,
    Container,
    ContainerKind,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
)
from trimtab.core.model.resources import BOTH, Resource, Resources

START = datetime(2026, 8, 1, tzinfo=UTC)
OOM_KILL = Termination("OOMKilled", START, START.replace(minute=1))


def a_wire_pod(*conditions: Json, **status: Json) -> bytes:
    return encoded({"status": {"conditions": list(conditions), **status}})


def condition(kind: str, status: str = "True", **fields: str) -> Json:
    return {"type": kind, "status": status, **fields}


def a_container(**fields: Json) -> Container:
    """The only container of a decoded pod."""
    return decode_pod(encoded({"spec": {"containers": [{"name": "app", **fields}]}})).containers[0]


def test_everything_that_deciders_read_of_a_pod_is_decoded() -> None:
    assert decode_pod(encoded(POD)) == Pod(
        namespace="default",
        name="web",
        uid="u-1",
        resource_version="7",
        generation=3,
        labels={"app": "web"},
        annotations={"note": "kept"},
        owner=OwnerReference("ReplicaSet", "web-1", "apps/v1", "y"),
        phase=PodPhase.RUNNING,
        containers=(
            Container(
                name="app",
                spec=Allocation(amounts(100, 128 * MIB), amounts(200)),
                status=Allocation(amounts(90, 128 * MIB), amounts(200)),
                restart_count=2,
                is_running=True,
                last_termination=OOM_KILL,
            ),
            Container(
                name="proxy",
                index=1,
                kind=ContainerKind.SIDECAR,
                restarts_on_resize=frozenset({Resource.MEMORY}),
                termination=OOM_KILL,
            ),
        ),
        created_at=START,
        started_at=START.replace(second=5),
        ready_since=START.replace(second=9),
        resize=ResizeState.IN_PROGRESS,
        node_name="node-1",
        placement=Placement(
            (("disk", "fast"),),
            (NodeTerm((NodeExpression("zone", "In", ("a",)),)),),
            (Toleration("dedicated", "Exists", effect="NoSchedule"),),
        ),
        init_requests=amounts(5000, 0),
        init_peak=Allocation(amounts(5000), {}),
        init_steps=((0, Allocation(amounts(5000), {})),),
        init_stated=Allocation(amounts(5000), {}),
        has_unseen_demands=True,
    )


def test_init_containers_and_the_sandbox_are_known_by_what_they_take() -> None:
    def asking(cpu: str, **fields: Json) -> Json:
        amount = {"cpu": cpu}
        return {"name": f"i-{cpu}", "resources": {"requests": amount, "limits": amount}, **fields}

    spec = {
        "initContainers": [asking("200m"), asking("300m"), asking("9", restartPolicy="Always")],
        "overhead": {"cpu": "50m", "memory": "16Mi"},
    }
    pod = decode_pod(encoded({"spec": spec}))

    assert pod.init_peak == Allocation(amounts(300), amounts(300))
    assert pod.init_stated == Allocation(amounts(200), amounts(200))
    assert pod.overhead == amounts(50, 16 * MIB)


def test_init_containers_are_known_by_the_sidecars_before_them() -> None:
    def asking(cpu: str, **fields: Json) -> Json:
        return {"name": f"i-{cpu}", "resources": {"requests": {"cpu": cpu}}, **fields}

    sidecar = {"name": "side", "restartPolicy": "Always"}
    first = [asking("200m"), asking("300m")]
    mixed = {"initContainers": [*first, sidecar, sidecar, asking("100m")]}
    plain = {"initContainers": first}

    assert decode_pod(encoded({"spec": mixed})).init_steps == (
        (0, Allocation(amounts(300), {})),
        (2, Allocation(amounts(100), {})),
    )
    assert decode_pod(encoded({"spec": plain})).init_steps == ()


def test_amounts_that_one_init_container_leaves_out_are_not_stated_by_all() -> None:
    asking = {"name": "a", "resources": {"requests": {"cpu": "200m", "memory": "1Mi"}}}
    less = {"name": "b", "resources": {"requests": {"cpu": "300m"}}}
    sidecar = {"name": "c", "restartPolicy": "Always"}
    some = decode_pod(encoded({"spec": {"initContainers": [asking, less, sidecar]}}))
    none = decode_pod(encoded({"spec": {"initContainers": [asking, {"name": "d"}]}}))
    only_sidecar = decode_pod(encoded({"spec": {"initContainers": [sidecar]}}))

    assert some.init_stated == Allocation(amounts(200), {})
    assert none.init_stated == Allocation({}, {})
    assert only_sidecar.init_stated is None


def test_an_empty_object_is_a_pod_of_which_nothing_is_known() -> None:
    assert decode_pod(b"{}") == Pod(namespace="", name="%")


def test_a_pod_that_has_no_name_yet_is_named_after_its_prefix() -> None:
    assert decode_pod(b'{"metadata": {"generateName": "web-"}}').name == "web-%"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Pending", PodPhase.PENDING, id="a known phase"),
        pytest.param("Melting", PodPhase.UNKNOWN, id="a phase of the future"),
        pytest.param(None, PodPhase.UNKNOWN, id="no phase"),
    ],
)
def test_a_phase_that_is_not_known_is_unknown(phase: str | None, expected: PodPhase) -> None:
    assert decode_pod(encoded({"status": {"phase": phase}})).phase is expected


def test_a_pod_with_a_deletion_time_is_being_deleted() -> None:
    data = encoded({"metadata": {"deletionTimestamp": "2026-08-01T00:00:00Z"}})

    assert decode_pod(data).is_deleting


@pytest.mark.parametrize(
    ("references", "name"),
    [
        pytest.param([], None, id="no owner"),
        pytest.param([{"kind": "A", "name": "a"}], None, id="an owner that does not say"),
        pytest.param([{"name": "a", "controller": False}], None, id="an owner that denies it"),
        pytest.param(
            [{"name": "a", "controller": True}, {"name": "b"}], "a", id="one of two controls"
        ),
        pytest.param(
            [{"name": "a", "controller": True}, {"name": "b", "controller": True}],
            "b",
            id="of two the last controls",
        ),
    ],
)
def test_the_last_controlling_owner_is_the_owner(references: Json, name: str | None) -> None:
    owner = decode_pod(encoded({"metadata": {"ownerReferences": references}})).owner

    assert (owner.name if owner else None) == name


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(None, Allocation(), id="no resources"),
        pytest.param({}, Allocation(), id="empty resources"),
        pytest.param({"requests": {}}, Allocation({}), id="an empty map is there"),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 1}}, Allocation(None, {}), id="extended resources only"
        ),
        pytest.param(
            {"requests": {"cpu": 0.5, "memory": 1e3}},
            Allocation(amounts(500, 1000)),
            id="numbers instead of text",
        ),
        pytest.param(
            {"requests": {"cpu": "0.0001", "memory": "0.5"}},
            Allocation(amounts(1, 1)),
            id="crumbs are rounded up",
        ),
    ],
)
def test_absent_and_empty_maps_of_resources_differ(resources: Json, expected: Allocation) -> None:
    assert a_container(resources=resources).spec == expected


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param({}, Allocation(amounts(100, MIB), amounts(200, 2 * MIB)), id="nothing"),
        pytest.param(
            {"requests": {}, "limits": {}},
            Allocation(amounts(100, MIB), amounts(200, 2 * MIB)),
            id="empty maps",
        ),
        pytest.param(
            {"requests": {"cpu": "50m"}},
            Allocation(amounts(50, MIB), amounts(200, 2 * MIB)),
            id="only the request of cpu",
        ),
        pytest.param(
            {"limits": {"memory": "3Mi"}},
            Allocation(amounts(100, MIB), amounts(200, 3 * MIB)),
            id="only the limit of memory",
        ),
        pytest.param(
            {
                "requests": {"cpu": "50m", "memory": "4Mi"},
                "limits": {"cpu": "60m", "memory": "5Mi"},
            },
            Allocation(amounts(50, 4 * MIB), amounts(60, 5 * MIB)),
            id="all",
        ),
        pytest.param(None, None, id="no resources yet"),
    ],
)
def test_what_a_status_does_not_name_is_taken_from_the_spec(
    reported: Json, expected: Allocation | None
) -> None:
    resources = {
        "requests": {"cpu": "100m", "memory": "1Mi"},
        "limits": {"cpu": "200m", "memory": "2Mi"},
    }
    pod = {
        "spec": {"containers": [{"name": "app", "resources": resources}]},
        "status": {"containerStatuses": [{"name": "app", "resources": reported}]},
    }

    assert decode_pod(encoded(pod)).containers[0].status == expected


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param({}, Allocation(), id="nothing"),
        pytest.param({"requests": {"cpu": "2m"}}, Allocation(amounts(2)), id="what was not asked"),
    ],
)
def test_what_the_kubelet_says_of_a_container_without_resources_counts(
    reported: Json, expected: Allocation
) -> None:
    pod = {
        "spec": {"containers": [{"name": "app"}]},
        "status": {"containerStatuses": [{"name": "app", "resources": reported}]},
    }

    assert decode_pod(encoded(pod)).containers[0].status == expected


def test_proportions_that_are_written_down_are_decoded() -> None:
    resources = {"requests": {"cpu": "33m"}, "limits": {"cpu": "49m"}}
    note = '{"requests":{"cpu":"100m"},"limits":{"cpu":"150m"}}'
    pod = {
        "metadata": {"annotations": {"limits.trimtab.dev/app": note}},
        "spec": {"containers": [{"name": "app", "resources": resources}]},
        "status": {"containerStatuses": [{"name": "app", "resources": resources}]},
    }
    (running,) = decode_pod(encoded(pod)).containers
    (new,) = decode_pod(encoded({**pod, "status": {}})).containers

    assert running.proportions == Allocation(amounts(100), amounts(150))
    assert new.proportions == new.spec


def test_of_two_statuses_with_one_name_the_first_counts() -> None:
    statuses = [{"name": "app", "restartCount": 1}, {"name": "app", "restartCount": 2}]
    pod = {
        "spec": {"containers": [{"name": "app"}]},
        "status": {"containerStatuses": statuses},
    }

    assert decode_pod(encoded(pod)).containers[0].restart_count == 1


def test_f28_a_status_of_a_container_that_the_spec_lacks_is_ignored() -> None:
    assert decode_pod(a_wire_pod(containerStatuses=[{"name": "ghost"}])).containers == ()


def test_ordinary_init_containers_are_left_out_but_keep_their_place() -> None:
    spec = {"initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}]}
    (sidecar,) = decode_pod(encoded({"spec": spec})).containers

    assert (sidecar.name, sidecar.index, sidecar.kind) == ("b", 1, ContainerKind.SIDECAR)


def test_a_sidecar_takes_its_status_from_the_init_containers() -> None:
    pod = {
        "spec": {"initContainers": [{"name": "b", "restartPolicy": "Always"}]},
        "status": {
            "containerStatuses": [{"name": "b", "restartCount": 7}],
            "initContainerStatuses": [{"name": "b", "restartCount": 3}],
        },
    }

    assert decode_pod(encoded(pod)).containers[0].restart_count == 3


@pytest.mark.parametrize(
    ("policies", "restarts"),
    [
        pytest.param(None, (), id="no policy"),
        pytest.param(
            [{"resourceName": "cpu", "restartPolicy": "NotRequired"}], (), id="no restart required"
        ),
        pytest.param(
            [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "RestartContainer"},
            ],
            BOTH[1:],
            id="a restart for one resource",
        ),
        pytest.param(
            [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], BOTH[:1], id="for cpu"
        ),
        pytest.param(
            [{"resourceName": "fans", "restartPolicy": "RestartContainer"}],
            BOTH,
            id="a resource that is not known may be any",
        ),
    ],
)
def test_a_container_says_which_resources_restart_it(
    policies: Json, restarts: tuple[Resource, ...]
) -> None:
    assert a_container(resizePolicy=policies).restarts_on_resize == frozenset(restarts)


@pytest.mark.parametrize(
    ("resources", "claims"),
    [
        pytest.param({"claims": [{"name": "gpu"}]}, True, id="a claim"),
        pytest.param({"claims": []}, False, id="an empty list of claims"),
        pytest.param({"requests": {"cpu": "1"}}, False, id="requests alone"),
        pytest.param(None, False, id="no resources"),
    ],
)
def test_claims_on_devices_are_noticed_beside_the_resources(
    resources: Json, *, claims: bool
) -> None:
    assert a_container(resources=resources).has_claims is claims


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], None, id="no conditions"),
        pytest.param([condition("Ready")], None, id="other conditions"),
        pytest.param(
            [condition("PodResizePending", reason="Deferred")],
            ResizeState.DEFERRED,
            id="pending and deferred",
        ),
        pytest.param(
            [condition("PodResizePending", reason="Infeasible")],
            ResizeState.INFEASIBLE,
            id="pending and infeasible",
        ),
        pytest.param(
            [condition("PodResizePending", reason="Moonphase")],
            ResizeState.PENDING_UNKNOWN,
            id="pending for another reason",
        ),
        pytest.param(
            [condition("PodResizePending")], ResizeState.PENDING_UNKNOWN, id="pending for no reason"
        ),
        pytest.param([condition("PodResizeInProgress")], ResizeState.IN_PROGRESS, id="in progress"),
        pytest.param(
            [condition("PodResizeInProgress", reason="Error", message="no")],
            ResizeState.ERROR,
            id="in error",
        ),
        pytest.param(
            [condition("PodResizeInProgress", message="slow")],
            ResizeState.IN_PROGRESS_UNKNOWN,
            id="in progress with a message",
        ),
        pytest.param(
            [condition("PodResizeInProgress", reason="Slow")],
            ResizeState.IN_PROGRESS_UNKNOWN,
            id="in progress for a reason",
        ),
        pytest.param(
            [condition("PodResizeInProgress"), condition("PodResizePending", reason="Deferred")],
            ResizeState.DEFERRED,
            id="pending counts before in progress",
        ),
        pytest.param(
            [condition("PodResizePending", "False", reason="Deferred")], None, id="no longer"
        ),
        pytest.param(
            [condition("PodResizePending", "False"), condition("PodResizeInProgress")],
            None,
            id="the first of them decides whether there is a resize",
        ),
    ],
)
def test_resize_conditions_tell_how_far_a_resize_got(
    conditions: list[Json], expected: ResizeState | None
) -> None:
    assert decode_pod(a_wire_pod(*conditions)).resize is expected


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        pytest.param([], None, id="no condition"),
        pytest.param([condition("Ready", "False")], None, id="not ready"),
        pytest.param(
            [condition("Ready", lastTransitionTime="2026-08-01T00:00:00Z")], START, id="ready"
        ),
        pytest.param([condition("Ready")], ZERO_TIME, id="ready for ever"),
    ],
)
def test_readiness_is_the_time_of_its_last_change(
    conditions: list[Json], since: datetime | None
) -> None:
    assert decode_pod(a_wire_pod(*conditions)).ready_since == since


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        pytest.param(
            {"spec": {"containers": [{}, {"resources": {"limits": {"memory": "1Gb"}}}]}},
            "spec.containers[1].resources.limits[memory]",
            id="a bad quantity in the spec",
        ),
        pytest.param(
            {
                "spec": {"initContainers": [{"name": "b", "restartPolicy": "Always"}]},
                "status": {
                    "initContainerStatuses": [
                        {"name": "a"},
                        {"name": "b", "resources": {"requests": {"cpu": []}}},
                    ]
                },
            },
            "status.initContainerStatuses[1].resources.requests[cpu]",
            id="a bad quantity in a status",
        ),
        pytest.param(
            {
                "spec": {"containers": [{"name": "a"}]},
                "status": {
                    "containerStatuses": [
                        {"name": "a", "lastState": {"terminated": {"finishedAt": "now"}}}
                    ]
                },
            },
            "status.containerStatuses[0].lastState.terminated.finishedAt",
            id="a bad time in a status",
        ),
        pytest.param(
            {"status": {"conditions": [condition("Ready", lastTransitionTime="now")]}},
            "status.conditions[0].lastTransitionTime",
            id="a bad time in a condition",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": 7}]}}, "spec.containers[0].name", id="a wrong type"
        ),
    ],
)
def test_a_pod_that_cannot_be_read_names_the_field(pod: Json, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_pod(encoded(pod))

    assert caught.value.path == path


def test_pods_share_the_strings_of_their_labels() -> None:
    first, second = decode_pod(encoded(POD)), decode_pod(encoded(POD))
    (key, value) = next(iter(first.labels.items()))

    assert key is next(iter(second.labels))
    assert value is second.labels["app"]
    assert first.containers[0].name is sys.intern("app")


def test_a_label_without_a_value_is_empty_text() -> None:
    assert decode_pod(b'{"metadata": {"labels": {"a": null}}}').labels == {"a": ""}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([], None, id="none at all"),
        pytest.param([("a", "100m", None)], amounts(100, 0), id="one"),
        pytest.param(
            [("a", "100m", None), ("b", "300m", None)], amounts(300, 0), id="one after the other"
        ),
        pytest.param(
            [("proxy", "50m", "Always"), ("a", "100m", None), ("late", "900m", "Always")],
            amounts(150, 0),
            id="beside the sidecars before it",
        ),
        pytest.param([("proxy", "50m", "Always")], None, id="sidecars alone"),
    ],
)
def test_init_containers_count_while_they_run(
    containers: list[tuple[str, str, str | None]], expected: Resources | None
) -> None:
    spec = {
        "initContainers": [
            {"name": name, "resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy}
            for name, cpu, policy in containers
        ]
    }

    assert decode_pod(encoded({"spec": spec})).init_requests == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"os": {"name": "windows"}}, True, id="its os"),
        pytest.param({"nodeSelector": {"kubernetes.io/os": "windows"}}, True, id="its nodes"),
        pytest.param({"os": {"name": "linux"}}, False, id="linux"),
        pytest.param({"os": {}, "nodeSelector": {"disk": "ssd"}}, False, id="not said"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_a_pod_of_windows_is_known_by_its_os_or_its_nodes(spec: Json, *, expected: bool) -> None:
    assert decode_pod(encoded({"spec": spec})).is_windows is expected


def test_the_overhead_of_a_runtime_class_is_decoded() -> None:
    spec = {"overhead": {"cpu": "250m", "memory": "120Mi"}}

    assert decode_pod(encoded({"spec": spec})).overhead == amounts(250, 120 * MIB)


def bound(**fields: Json) -> Json:
    """The spec of a pod that a node has, with one container."""
    return {"nodeName": "one", "containers": [{"name": "app"}], **fields}


def holding(**fields: Json) -> Json:
    return bound(containers=[{"name": "app", **fields}])


TERM = {"topologyKey": "kubernetes.io/hostname"}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]
}
GPU = {"cpu": "1", "example.com/gpu": "1"}
TOKEN = {"name": "kube-api-access", "projected": {"sources": []}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(bound(affinity={"podAntiAffinity": REQUIRED}), id="far from other pods"),
        pytest.param(bound(affinity={"podAffinity": REQUIRED}), id="near other pods"),
        pytest.param(
            bound(topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]),
            id="spread over nodes",
        ),
        pytest.param(holding(ports=[{"containerPort": 80, "hostPort": 80}]), id="port of its node"),
        pytest.param(
            bound(volumes=[TOKEN, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]),
            id="volume claim",
        ),
        pytest.param(bound(volumes=[{"name": "d", "hostPath": {"path": "/d"}}]), id="host path"),
        pytest.param(bound(volumes=[{"name": "d", "ephemeral": {}}]), id="ephemeral claim"),
        pytest.param(holding(resources={"limits": GPU, "requests": GPU}), id="extended resource"),
        pytest.param(
            holding(resources={"requests": {"ephemeral-storage": "1Gi"}}), id="ephemeral storage"
        ),
        pytest.param(holding(resources={"claims": [{"name": "gpu"}]}), id="device claim"),
        pytest.param(
            bound(initContainers=[{"name": "i", "resources": {"limits": GPU}}]),
            id="extended resource of an init container",
        ),
    ],
)
def test_a_pod_says_if_other_nodes_may_refuse_it_for_more_than_room(spec: Json) -> None:
    assert decode_pod(encoded({"spec": spec})).has_unseen_demands


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(bound(volumes=[TOKEN, {"name": "c", "configMap": {}}]), id="usual volumes"),
        pytest.param(bound(affinity={"podAntiAffinity": PREFERRED}), id="only preferred"),
        pytest.param(
            bound(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]),
            id="spread if possible",
        ),
        pytest.param(holding(ports=[{"containerPort": 80}]), id="port of its own"),
        pytest.param(holding(resources={"requests": {"cpu": "1", "memory": "1Gi"}}), id="room"),
        pytest.param(holding(resources={"limits": {"example.com/gpu": "0"}}), id="none of it"),
        pytest.param(
            {**bound(affinity={"podAffinity": REQUIRED}), "nodeName": None}, id="no node yet"
        ),
    ],
)
def test_a_pod_with_usual_demands_may_go_to_any_node_with_room(spec: Json) -> None:
    assert not decode_pod(encoded({"spec": spec})).has_unseen_demands
