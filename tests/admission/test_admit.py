"""Admission on a small cluster: what new pods get, and that nothing keeps them from coming."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import BOOST_TOLD, MIB, a_container, a_pod, a_recommendation, amounts

from trimtab.admission.admit import Admission, AdmitOutcome
from trimtab.admission.owner_cache import NotYetError
from trimtab.admission.settings import AdmissionSettings
from trimtab.api.wire.watch_events import ObjectName, StoredObject
from trimtab.core.model.autoscalers import BoostType, CpuBoost, TargetReference, UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Remove
from trimtab.core.model.nodes import Node, Placement
from trimtab.core.model.pods import OwnerReference, Pod, PodHead, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.model.workloads import Lookup, PeekedOwner, PeekedWorkload, Workload
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.simulation.api_server.json_patch import apply_patch

UP = a_recommendation(target=amounts(500, 500 * MIB))
OWNER = OwnerReference("ReplicaSet", "web-1", "apps/v1", "rs-web")


def a_new_pod(owner: OwnerReference | None = OWNER, **fields: object) -> Pod:
    return a_pod(a_container(requests=amounts(100, 100 * MIB)), owner=owner, **fields)  # type: ignore[arg-type]


async def a_cluster(**fields: object) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy()
    cluster.autoscale(UP, **fields)  # type: ignore[arg-type]
    return cluster


def requests_after(pod: Pod, admission: Admission) -> Resources:
    return apply_patch(pod, admission.admit(pod)).containers[0].spec.requests or {}


def test_a_new_pod_gets_what_is_recommended_for_its_workload() -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster(), AdmissionSettings())
        requests = requests_after(a_new_pod(), admission)

        assert requests == amounts(500, 500 * MIB)
        assert admission.counts == {AdmitOutcome.PATCHED: 1}

    run_virtually(scene())


@pytest.mark.parametrize(
    ("pod", "fields", "how"),
    [
        pytest.param(a_new_pod(owner=None), {}, AdmitOutcome.UNGOVERNED, id="nobody owns it"),
        pytest.param(
            a_new_pod(OwnerReference("ReplicaSet", "new-1")),
            {},
            AdmitOutcome.OWNER_UNKNOWN,
            id="its owner is not in the store yet",
        ),
        pytest.param(
            a_new_pod(structs.replace(OWNER, uid="another")),
            {},
            AdmitOutcome.OWNER_UNKNOWN,
            id="its owner is another of the same name",
        ),
        pytest.param(
            a_new_pod(labels={"app": "api"}),
            {},
            AdmitOutcome.UNGOVERNED,
            id="its labels do not match",
        ),
        pytest.param(
            a_new_pod(),
            {"target": TargetReference("Deployment", "api")},
            AdmitOutcome.UNGOVERNED,
            id="no autoscaler is for its workload",
        ),
        pytest.param(a_new_pod(), {"mode": UpdateMode.OFF}, AdmitOutcome.UNGOVERNED, id="mode Off"),
        pytest.param(
            a_new_pod(),
            {"boost": CpuBoost(BoostType.FACTOR, factor=None)},
            AdmitOutcome.BOOST_INVALID,
            id="a boost that does not say how much",
        ),
    ],
)
def test_a_pod_about_which_something_is_in_doubt_comes_in_unchanged_and_is_counted(
    pod: Pod, fields: dict[str, object], how: AdmitOutcome
) -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster(**fields), AdmissionSettings())
        patch = admission.admit(pod)

        assert patch == ()
        assert admission.counts == {how: 1}

    run_virtually(scene())


@pytest.mark.parametrize(
    ("owner", "fields"),
    [
        pytest.param(None, {}, id="nobody owns it"),
        pytest.param(OwnerReference("ReplicaSet", "new-1"), {}, id="its owner is unknown"),
        pytest.param(OWNER, {"mode": UpdateMode.OFF}, id="no autoscaler acts on it"),
        pytest.param(OWNER, {"namespace": "other"}, id="no autoscaler in its namespace"),
    ],
)
def test_a_pod_that_is_left_alone_loses_the_mark_that_it_was_copied_with(
    owner: OwnerReference | None, fields: dict[str, object]
) -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster(**fields), AdmissionSettings())
        marks = {**BOOST_TOLD, annotation_name("app"): '{"requests":{"cpu":"10m"}}'}
        new = structs.replace(a_new_pod(owner), annotations=marks)

        assert admission.admit(new) == (Remove("/metadata/annotations/vpaCpuStartupBoost~1app"),)

    run_virtually(scene())


def test_pods_of_ignored_namespaces_are_left_alone() -> None:
    async def scene() -> None:
        settings = AdmissionSettings(ignored_namespaces=frozenset({"default"}))
        admission = Admission(await a_cluster(), settings)

        assert admission.admit(a_new_pod()) == ()
        assert admission.counts == {AdmitOutcome.IGNORED: 1}

    run_virtually(scene())


@pytest.mark.parametrize(
    ("gates", "is_boosted"),
    [
        pytest.param(FeatureGates(), True, id="with the feature on"),
        pytest.param(FeatureGates(cpu_startup_boost=False), False, id="with the feature off"),
    ],
)
def test_mode_off_with_a_boost_still_boosts(*, gates: FeatureGates, is_boosted: bool) -> None:
    async def scene() -> None:
        cluster = await a_cluster(mode=UpdateMode.OFF, boost=CpuBoost(factor=3))
        admission = Admission(cluster, AdmissionSettings(gates=gates))
        requests = requests_after(a_new_pod(), admission)

        assert requests == amounts(300 if is_boosted else 100, 100 * MIB)

    run_virtually(scene())


@pytest.mark.parametrize(("role", "millicores"), [("leader", 1500), ("follower", 500)])
def test_s45_a_new_pod_gets_the_boost_of_the_role_that_it_is_created_with(
    role: str, millicores: int
) -> None:
    async def scene() -> None:
        cluster = await a_cluster(selector=Selector((equality("role", "follower"),)))
        cluster.autoscale(
            a_recommendation(target=amounts(500, 500 * MIB)),
            name="leader",
            target=TargetReference("Deployment", "web"),
            selector=Selector((equality("role", "leader"),)),
            boost=CpuBoost(factor=3),
        )
        admission = Admission(cluster, AdmissionSettings())
        pod = a_new_pod(labels={"app": "web", "role": role})

        assert requests_after(pod, admission) == amounts(millicores, 500 * MIB)

    run_virtually(scene())


def test_the_oldest_of_two_autoscalers_governs() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        younger = cluster.clock.now().replace(year=2027)
        cluster.autoscale(
            a_recommendation(target=amounts(900, 900 * MIB)),
            name="young",
            target=TargetReference("Deployment", "web"),
            created_at=younger,
        )
        admission = Admission(cluster, AdmissionSettings())

        assert requests_after(a_new_pod(), admission) == amounts(500, 500 * MIB)

    run_virtually(scene())


def edits(cluster: UpdaterCluster) -> list[Callable[[], None]]:
    return [
        lambda: cluster.autoscale(a_recommendation(target=amounts(700, 700 * MIB))),
        lambda: cluster.autoscale(target=TargetReference("Deployment", "api")),
        lambda: cluster.autoscale(target=TargetReference("Deployment", "web")),
        cluster.drop_autoscaler,
        lambda: cluster.autoscale(UP),
    ]


def test_what_changes_about_autoscalers_counts_for_the_next_pod() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        admission = Admission(cluster, AdmissionSettings())
        running = asyncio.create_task(admission.run())
        seen = []
        for change in edits(cluster):
            change()
            await asyncio.sleep(0.001)
            seen.append(requests_after(a_new_pod(), admission)[Resource.CPU])
        running.cancel()

        assert seen == [700, 100, 700, 100, 500]

    run_virtually(scene())


ROLLOUT = WorkloadName("default", "Rollout", "web")


async def a_cluster_with_a_rollout() -> UpdaterCluster:
    """A cluster in which the autoscaler's target takes a second to be looked up."""
    cluster = await a_cluster()
    cluster.own("web", ROLLOUT)
    cluster.slow_lookups(1)
    return cluster


def test_after_preparations_the_first_pod_gets_its_size() -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster_with_a_rollout(), AdmissionSettings())
        running = asyncio.create_task(admission.run())
        prepared = [admission.prepare()]
        await asyncio.sleep(5)
        prepared.append(admission.prepare())
        requests = requests_after(a_new_pod(), admission)
        running.cancel()

        assert prepared == [False, True]
        assert requests == amounts(500, 500 * MIB)

    run_virtually(scene())


def test_a_target_is_looked_up_as_soon_as_its_autoscaler_is_seen() -> None:
    async def scene() -> None:
        cluster = await a_cluster_with_a_rollout()
        cluster.drop_autoscaler()
        admission = Admission(cluster, AdmissionSettings())
        running = asyncio.create_task(admission.run())
        await asyncio.sleep(1)
        cluster.autoscale(UP, target=TargetReference("Rollout", "web", "example.com/v1"))
        await asyncio.sleep(2)
        requests = requests_after(a_new_pod(), admission)
        running.cancel()

        assert requests == amounts(500, 500 * MIB)

    run_virtually(scene())


def test_a_pod_whose_owner_is_not_known_yet_may_wait_and_then_gets_its_size() -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster_with_a_rollout(), AdmissionSettings())
        running = asyncio.create_task(admission.run())
        with pytest.raises(NotYetError):
            admission.admit(a_new_pod(), may_wait=True)
        at_once = requests_after(a_new_pod(), admission)
        await asyncio.sleep(2)
        requests = requests_after(a_new_pod(), admission)
        running.cancel()

        assert at_once == amounts(100, 100 * MIB)
        assert requests == amounts(500, 500 * MIB)
        assert admission.counts == {AdmitOutcome.OWNER_UNKNOWN: 1, AdmitOutcome.PATCHED: 1}

    run_virtually(scene())


def test_no_pod_waits_in_a_namespace_without_autoscalers() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.slow_lookups(1)
        admission = Admission(cluster, AdmissionSettings())
        owner = OwnerReference("Rollout", "web", "example.com/v1", "u")

        assert admission.admit(a_new_pod(owner), may_wait=True) == ()
        assert admission.counts == {AdmitOutcome.UNGOVERNED: 1}

    run_virtually(scene())


def test_a_pod_that_is_left_alone_because_of_its_owner_is_logged_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster(), AdmissionSettings())
        admission.admit(a_new_pod(OwnerReference("ReplicaSet", "new-1")))

    run_virtually(scene())
    details = [record.__dict__.get("detail") for record in caplog.records]
    assert details == ["default/ReplicaSet/new-1: ReplicaSet default/new-1 not seen"]


class BrokenOwners:
    """Owners that fail as nobody expects."""

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        raise RuntimeError(owned)

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        raise RuntimeError(name, api_version)

    def known(self, name: WorkloadName) -> Workload | None:
        raise RuntimeError(name)

    async def look_up(self, lookup: Lookup) -> None:
        raise RuntimeError(lookup)

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        raise RuntimeError(owned)

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        raise RuntimeError(name, api_version)


def test_an_error_of_our_own_keeps_no_pod_from_being_created() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        cluster.owners = BrokenOwners()
        admission = Admission(cluster, AdmissionSettings())

        assert admission.admit(a_new_pod()) == ()
        assert admission.counts == {AdmitOutcome.FAILED: 1}

    run_virtually(scene())


@given(
    names=st.lists(st.sampled_from(["web", "api", "db"]), min_size=1, max_size=8),
    targets=st.lists(st.sampled_from(["web", "api", "db"]), min_size=8, max_size=8),
)
def test_the_index_finds_what_a_search_through_all_autoscalers_finds(
    names: list[str], targets: list[str]
) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        admission = Admission(cluster, AdmissionSettings())
        following = asyncio.create_task(admission.run())
        await asyncio.sleep(0.001)
        for name, target in zip(names, targets, strict=False):
            cluster.autoscale(UP, name=name, target=TargetReference("Deployment", target))
        await asyncio.sleep(0.001)
        following.cancel()
        for target in ("web", "api", "db"):
            workload = WorkloadName("default", "Deployment", target)
            found = {each.name for each in admission.index.find(workload)}

            assert found == {
                each.name
                for each in cluster.autoscalers
                if each.target and each.target.name == target
            }

    run_virtually(scene())


def test_admitting_an_admitted_pod_again_changes_nothing() -> None:
    async def scene() -> None:
        admission = Admission(await a_cluster(), AdmissionSettings())
        admitted = apply_patch(a_new_pod(), admission.admit(a_new_pod()))
        again = admission.admit(admitted)

        assert apply_patch(admitted, again).containers == admitted.containers
        assert all(isinstance(each, Add) for each in again)

    run_virtually(scene())


def test_f21_a_new_pod_becomes_no_larger_than_the_largest_node() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        admission = Admission(cluster, AdmissionSettings())
        unbounded = Admission(cluster, AdmissionSettings(caps_to_nodes=False))
        running = asyncio.create_task(admission.run())
        await asyncio.sleep(1)
        before = requests_after(a_new_pod(), admission)
        node = Node("small", amounts(300, 4096 * MIB))
        cluster.node_writer.put(StoredObject(ObjectName("", node.name), node))
        await asyncio.sleep(1)
        after = requests_after(a_new_pod(), admission)
        cluster.node_writer.drop(ObjectName("", node.name))
        admission.prepare()
        later = requests_after(a_new_pod(), admission)
        running.cancel()

        assert before == later == amounts(500, 500 * MIB)
        assert after == amounts(300, 500 * MIB)
        assert requests_after(a_new_pod(), unbounded) == amounts(500, 500 * MIB)

    run_virtually(scene())


AGENT = WorkloadName("kube-system", "DaemonSet", "agent")


def a_daemon_set(
    cpu: int, placement: Placement | None = None, ready: int = 1
) -> StoredObject[Workload]:
    container = a_container(requests=amounts(cpu, 96 * MIB))
    template = a_pod(container, name="", owner=None, namespace="kube-system", placement=placement)
    selector = Selector((equality("app", "web"),))
    workload = Workload(
        AGENT, selector=selector, replicas=1, ready=ready, updated=1, template=template
    )
    return StoredObject(ObjectName(AGENT.namespace, AGENT.name), workload)


def test_d25_a_new_pod_becomes_no_larger_than_what_daemon_sets_leave_of_a_node() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        node = Node("small", amounts(300, 4096 * MIB))
        cluster.node_writer.put(StoredObject(ObjectName("", node.name), node))
        admission = Admission(cluster, AdmissionSettings())
        running = asyncio.create_task(admission.run())
        await asyncio.sleep(1)
        found = []
        for placement, cpu in ((None, 50), (None, 80), (Placement((("pool", "other"),)), 80)):
            cluster.daemon_set_writer.put(a_daemon_set(cpu, placement))
            await asyncio.sleep(1)
            found.append(requests_after(a_new_pod(), admission)[Resource.CPU])
        cluster.daemon_set_writer.drop(ObjectName(AGENT.namespace, AGENT.name))
        admission.prepare()
        running.cancel()

        assert found == [250, 220, 300]
        assert requests_after(a_new_pod(), admission)[Resource.CPU] == 300

    run_virtually(scene())


def test_d25_a_daemon_set_takes_nothing_from_new_pods_until_its_pods_ran() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        node = Node("small", amounts(300, 4096 * MIB))
        cluster.node_writer.put(StoredObject(ObjectName("", node.name), node))
        admission = Admission(cluster, AdmissionSettings())
        running = asyncio.create_task(admission.run())
        await asyncio.sleep(1)
        found = []
        for ready in (0, 1, 0):
            cluster.daemon_set_writer.put(a_daemon_set(280, ready=ready))
            await asyncio.sleep(1)
            found.append(requests_after(a_new_pod(), admission)[Resource.CPU])
        running.cancel()

        # A pod that is not ready any more takes as much of its node as before.
        assert found == [300, 20, 20]

    run_virtually(scene())


def test_d25_what_an_autoscaler_gives_a_daemon_set_is_not_left_for_others() -> None:
    async def scene() -> None:
        cluster = await a_cluster()
        node = Node("small", amounts(300, 4096 * MIB))
        cluster.node_writer.put(StoredObject(ObjectName("", node.name), node))
        daemon_set = a_daemon_set(50).record
        name = AGENT._replace(namespace="default")
        cluster.daemon_set_writer.put(
            StoredObject(ObjectName("default", "agent"), replace(daemon_set, name=name))
        )
        cluster.autoscale(
            a_recommendation(target=amounts(120, 96 * MIB)),
            name="agent",
            target=TargetReference("DaemonSet", "agent"),
        )
        admission = Admission(cluster, AdmissionSettings())

        assert requests_after(a_new_pod(), admission)[Resource.CPU] == 180

    run_virtually(scene())


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(None, 3000, id="what the largest node has"),
        pytest.param(2000, 2000, id="what an operator allows"),
        pytest.param(9000, 3000, id="an operator who allows more than any node has"),
    ],
)
def test_f26_a_boost_asks_for_no_more_cpu_than_there_is_on_the_largest_node(
    most: int | None, expected: int
) -> None:
    async def scene() -> None:
        cluster = await a_cluster(boost=CpuBoost(BoostType.FACTOR, factor=10))
        for name, node in (
            ("large", amounts(3000, 4096 * MIB)),
            ("small", amounts(500, 9999 * MIB)),
        ):
            cluster.node_writer.put(StoredObject(ObjectName("", name), Node(name, node)))
        admission = Admission(cluster, AdmissionSettings(max_boost_millicores=most))

        assert requests_after(a_new_pod(), admission)[Resource.CPU] == expected

    run_virtually(scene())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, 4000, id="any node"),
        pytest.param({"pool": "small"}, 1000, id="only small ones"),
    ],
)
def test_f26_a_boost_is_bound_by_the_nodes_that_the_pod_may_go_to(
    labels: dict[str, str], expected: int
) -> None:
    async def scene() -> None:
        cluster = await a_cluster(boost=CpuBoost(BoostType.FACTOR, factor=10))
        for name, millicores, its_labels in (("large", 4000, {}), ("small", 1000, labels)):
            node = Node(name, amounts(millicores, 4096 * MIB), labels=its_labels)
            cluster.node_writer.put(StoredObject(ObjectName("", name), node))
        admission = Admission(cluster, AdmissionSettings())
        free, bound = (
            a_new_pod(),
            structs.replace(a_new_pod(), placement=Placement(tuple(labels.items()))),
        )

        assert requests_after(free, admission)[Resource.CPU] == 4000
        assert requests_after(bound, admission)[Resource.CPU] == expected

    run_virtually(scene())
