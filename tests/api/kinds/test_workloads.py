from dataclasses import replace
from datetime import timedelta

import pytest
from support.makers.records import MIB, amounts
from support.makers.wire_examples import (
    CRON_JOB,
    DEPLOYMENT,
    REPLICATION_CONTROLLER,
    SCALE,
    Json,
    encoded,
)

from trimtab.api.kinds.workloads import WELL_KNOWN_KINDS, decode_scale, decode_workload
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.nodes import Placement
from trimtab.core.model.pods import Allocation, Container, OwnerReference, Pod, WorkloadName
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.model.workloads import Workload

WEB = Selector((equality("app", "web"),))
OWNER = OwnerReference("ReplicaSet", "web-1", "apps/v1", "y")


@pytest.mark.parametrize(
    ("kind", "replicas"),
    [
        pytest.param("Deployment", 3, id="a deployment asks for replicas"),
        pytest.param("ReplicaSet", 3, id="a replica set asks for replicas"),
        pytest.param("StatefulSet", 3, id="a stateful set asks for replicas"),
        pytest.param("DaemonSet", 5, id="a daemon set wants as many as it should schedule"),
    ],
)
def test_a_workload_tells_its_owner_its_pods_and_how_many_it_wants(
    kind: str, replicas: int
) -> None:
    name = WorkloadName("default", kind, "web")

    workload = decode_workload(kind, encoded(DEPLOYMENT))

    first = 0 if kind == "StatefulSet" else None
    ready = 4 if kind == "DaemonSet" else None
    expected = Workload(name, OWNER, WEB, replicas, uid="u-1", first_ordinal=first, ready=ready)
    is_failing = False if kind == "ReplicaSet" else None
    assert workload == replace(expected, is_failing=is_failing)


@pytest.mark.parametrize(
    ("observed", "updated"),
    [
        pytest.param(3, 4, id="of this template"),
        pytest.param(2, None, id="of the one before"),
        pytest.param(None, None, id="of none yet"),
    ],
)
def test_a_daemon_set_tells_on_how_many_nodes_it_runs(
    observed: int | None, updated: int | None
) -> None:
    status = {"numberReady": 5, "updatedNumberScheduled": 4, "observedGeneration": observed}
    wire = {"metadata": {"name": "agent", "generation": 3}, "status": status}
    found = decode_workload("DaemonSet", encoded(wire))

    assert (found.ready, found.updated) == (5, updated)


def test_d25_a_daemon_set_tells_what_its_pods_take_and_where_they_go() -> None:
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "nodeSelector": {"pool": "small"},
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "250m"}}}],
            "initContainers": [{"name": "setup", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    wire = {
        "metadata": {"namespace": "kube-system", "name": "agent"},
        "spec": {"template": template},
    }

    assert decode_workload("DaemonSet", encoded(wire)).template == Pod(
        "kube-system",
        "",
        labels={"app": "agent"},
        containers=(Container("app", spec=Allocation(amounts(250))),),
        placement=Placement((("pool", "small"),)),
        init_peak=Allocation(amounts(1000), {}),
        init_requests=amounts(1000, 0),
    )
    assert decode_workload("Deployment", encoded(wire)).template is None


def test_a_replication_controller_selects_by_plain_labels() -> None:
    workload = decode_workload("ReplicationController", encoded(REPLICATION_CONTROLLER))

    assert workload.selector == WEB
    assert workload.replicas == 2


@pytest.mark.parametrize(
    ("kind", "status", "existing"),
    [
        pytest.param("ReplicaSet", {"replicas": 2, "readyReplicas": 1}, 2, id="a replica set"),
        pytest.param("ReplicationController", {"replicas": 2}, 2, id="its elder"),
        pytest.param("StatefulSet", {"replicas": 0}, 0, id="a stateful set"),
        pytest.param(
            "DaemonSet",
            {"currentNumberScheduled": 4, "desiredNumberScheduled": 5},
            4,
            id="a daemon set counts nodes",
        ),
        pytest.param("ReplicaSet", {}, None, id="nothing is said"),
        pytest.param("Job", {"active": 3, "failed": 1}, 4, id="a job counts ended pods as well"),
        pytest.param("Job", {}, 0, id="a new job"),
    ],
)
def test_a_workload_tells_how_many_pods_it_has(
    kind: str, status: Json, existing: int | None
) -> None:
    assert decode_workload(kind, encoded({"status": status})).existing == existing


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
@pytest.mark.parametrize(
    ("conditions", "is_failing"),
    [
        pytest.param(None, False, id="no conditions"),
        pytest.param([{"type": "ReplicaFailure", "status": "False"}], False, id="not now"),
        pytest.param(
            [{"type": "ReplicaFailure", "status": "True", "reason": "FailedDelete"}],
            False,
            id="it cannot delete pods",
        ),
        pytest.param(
            [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}],
            True,
            id="its latest pod was refused",
        ),
    ],
)
def test_replica_sets_tell_that_they_cannot_create_pods(
    kind: str, conditions: list[Json] | None, *, is_failing: bool
) -> None:
    wire = {"status": {"replicas": 1, "conditions": conditions}}

    assert decode_workload(kind, encoded(wire)).is_failing is is_failing


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        pytest.param({}, 0, id="in order by default"),
        pytest.param({"podManagementPolicy": "OrderedReady"}, 0, id="in order"),
        pytest.param({"ordinals": {"start": 5}}, 5, id="in order from another number"),
        pytest.param({"podManagementPolicy": "Parallel"}, None, id="in no order"),
    ],
)
def test_a_stateful_set_tells_in_which_order_it_makes_its_pods(
    spec: Json, first: int | None
) -> None:
    assert decode_workload("StatefulSet", encoded({"spec": spec})).first_ordinal == first


@pytest.mark.parametrize(
    "kind", ["DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"]
)
def test_a_workload_that_creates_pods_tells_what_its_template_asks_for(kind: str) -> None:
    containers = [
        {"name": "app", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Mi"}}},
        {"name": "bare"},
    ]
    wire = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
    }

    assert decode_workload(kind, encoded(wire)).sizes == {
        "app": Allocation(amounts(100), amounts(memory=MIB)),
        "bare": Allocation(),
    }
    assert decode_workload("Deployment", encoded(wire)).sizes is None


def test_a_replica_set_that_creates_no_pods_keeps_no_template() -> None:
    spec = {"replicas": 0, "template": {"spec": {"containers": [{"name": "app"}]}}}

    assert decode_workload("ReplicaSet", encoded({"spec": spec})).sizes is None


def test_a_template_that_cannot_be_read_keeps_no_workload_out() -> None:
    container = {"name": "app", "resources": {"requests": {"cpu": "much"}}}
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}

    assert decode_workload("StatefulSet", encoded({"spec": spec})).sizes is None


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({}, 0, id="not said"),
        pytest.param({"minReadySeconds": 120}, 120, id="two minutes"),
        pytest.param({"minReadySeconds": -1}, 0, id="less than none"),
        pytest.param(
            {"minReadySeconds": 120, "podManagementPolicy": "Parallel"}, 0, id="in no order"
        ),
    ],
)
def test_a_stateful_set_tells_how_long_pods_are_ready_before_the_next(
    spec: Json, seconds: int
) -> None:
    workload = decode_workload("StatefulSet", encoded({"spec": spec}))

    assert workload.min_ready == timedelta(seconds=seconds)


ON_DELETE: Json = {"updateStrategy": {"type": "OnDelete"}}
ROLLING: Json = {"currentRevision": "web-1", "updateRevision": "web-2"}


def partitioned(partition: int) -> Json:
    rolling = {"partition": partition}
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param(ON_DELETE, {"updateRevision": "web-2"}, "web-2", id="its name"),
        pytest.param(ON_DELETE, {"updateRevision": "web-2", "observedGeneration": 2}, "", id="old"),
        pytest.param(ON_DELETE, {}, "", id="not said"),
        pytest.param({}, ROLLING, "web-2", id="a rollout by default"),
        pytest.param({"updateStrategy": {"type": "RollingUpdate"}}, ROLLING, "web-2", id="named"),
        pytest.param(partitioned(0), ROLLING, "web-2", id="a partition of none"),
        pytest.param(partitioned(2), ROLLING, "web-2", id="a partition"),
        pytest.param({}, {**ROLLING, "currentRevision": "web-2"}, None, id="it is through"),
        pytest.param({}, {}, None, id="no pod yet"),
    ],
)
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_stateful_set_names_the_revision_that_only_new_pods_get(
    policy: str, spec: Json, status: Json, expected: str | None
) -> None:
    wire = {
        "metadata": {"name": "web", "generation": 3},
        "spec": {"podManagementPolicy": policy, **spec},
        "status": {"observedGeneration": 3, **status},
    }

    workload = decode_workload("StatefulSet", encoded(wire))

    assert workload.staged_revision == expected
    # With `OnDelete` somebody else replaces the pods.
    assert workload.is_rolling_out == (expected is not None and spec != ON_DELETE)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, 0, id="a rollout to all pods"),
        pytest.param(partitioned(2), 2, id="a partition"),
        pytest.param({**partitioned(2), "ordinals": {"start": 5}}, 7, id="of other ordinals"),
        pytest.param(ON_DELETE, 0, id="no rollout"),
    ],
)
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_stateful_set_tells_which_pods_keep_their_revision(
    policy: str, spec: Json, expected: int
) -> None:
    wire = {"spec": {"podManagementPolicy": policy, **spec}, "status": ROLLING}

    assert decode_workload("StatefulSet", encoded(wire)).staged_from == expected


@pytest.mark.parametrize(
    ("spec", "updated", "observed", "expected"),
    [
        pytest.param(ON_DELETE, 4, 3, "7", id="one pod is left behind"),
        pytest.param(ON_DELETE, 5, 3, None, id="no pod is left behind"),
        pytest.param(ON_DELETE, 5, 2, "7", id="of the template before"),
        pytest.param({}, 4, 3, "7", id="a rollout by default"),
        pytest.param({}, 5, 3, None, id="a rollout that is through"),
        pytest.param({}, 0, 3, "7", id="a rollout without a pod yet"),
    ],
)
def test_a_daemon_set_tells_if_only_new_pods_get_its_template(
    spec: Json, updated: int, observed: int, expected: str | None
) -> None:
    counts = {"currentNumberScheduled": 5}
    if updated:
        # The API server leaves out a number of none.
        counts["updatedNumberScheduled"] = updated
    wire = {
        "metadata": {
            "name": "agent",
            "generation": 3,
            "annotations": {"deprecated.daemonset.template.generation": "7"},
        },
        "spec": spec,
        "status": {"observedGeneration": observed, **counts},
    }

    workload = decode_workload("DaemonSet", encoded(wire))

    assert workload.staged_revision == expected
    assert workload.is_rolling_out == (spec == {} and updated < 5)


def test_a_cron_job_selects_by_the_labels_of_its_innermost_template() -> None:
    workload = decode_workload("CronJob", encoded(CRON_JOB))

    assert workload.selector == Selector((equality("job", "nightly"),))
    assert workload.replicas is None


@pytest.mark.parametrize("kind", WELL_KNOWN_KINDS)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="no spec"),
        pytest.param({}, id="an empty spec"),
        pytest.param({"selector": None, "jobTemplate": {}, "replicas": None}, id="nulls in it"),
    ],
)
def test_a_workload_that_says_nothing_selects_no_pods(kind: str, spec: Json) -> None:
    workload = decode_workload(kind, encoded({"spec": spec}))

    first = 0 if kind == "StatefulSet" else None
    assert workload == Workload(WorkloadName("", kind, ""), first_ordinal=first)


def test_any_other_kind_is_known_and_counted_by_its_scale() -> None:
    workload = decode_scale("Rollout", encoded(SCALE))

    assert workload.name == WorkloadName("default", "Rollout", "web")
    assert workload.owner == OWNER
    assert workload.selector is not None
    assert workload.selector.matches({"app": "web"})
    assert not workload.selector.matches({"app": "web", "old": ""})
    assert workload.replicas == 9


@pytest.mark.parametrize("spec", [None, {}, {"replicas": None}])
def test_a_scale_that_does_not_say_how_many_leaves_it_open(spec: Json) -> None:
    assert decode_scale("Rollout", encoded({"spec": spec})).replicas is None


@pytest.mark.parametrize("status", [None, {}, {"selector": ""}])
def test_a_scale_without_a_selector_selects_no_pods(status: Json) -> None:
    assert decode_scale("Rollout", encoded({"status": status})).selector is None


@pytest.mark.parametrize(
    ("kind", "data", "path"),
    [
        pytest.param(
            "Deployment",
            {"spec": {"selector": {"matchLabels": {"a b": "c"}}}},
            "spec.selector",
            id="a bad label",
        ),
        pytest.param(
            "Deployment", {"spec": {"replicas": "3"}}, "spec.replicas", id="replicas as text"
        ),
        pytest.param(
            "CronJob",
            {"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"": "c"}}}}}}},
            "spec.jobTemplate.spec.template.metadata.labels",
            id="a bad template label",
        ),
    ],
)
def test_a_workload_that_cannot_be_read_names_the_field(kind: str, data: Json, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_workload(kind, encoded(data))

    assert caught.value.path == path


def test_a_scale_with_a_bad_count_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"spec\.replicas"):
        decode_scale("Rollout", encoded({"spec": {"replicas": "9"}}))


def test_a_scale_with_a_bad_selector_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"status\.selector"):
        decode_scale("Rollout", encoded({"status": {"selector": "app in"}}))
