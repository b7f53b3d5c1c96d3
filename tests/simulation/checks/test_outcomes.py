"""Every checker of outcomes objects to its sin, and has nothing against the honest twin."""

from datetime import timedelta

import pytest
from msgspec import structs
from simulation.toys import SELECTOR, USUAL, Scene, Stage, judge, set_amounts
from support.makers.records import BOOST_TOLD, MIB, a_recommendation, amounts

from trimtab.api.kinds.leases import Lease
from trimtab.core.model.autoscalers import BoostType, CpuBoost, TargetReference, UpdateMode
from trimtab.core.model.pods import (
    UPDATES,
    Allocation,
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resources
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.simulation.checks.availability import Availability, EvictionLoops
from trimtab.simulation.checks.base import Checker
from trimtab.simulation.checks.boost_marks import BoostEnds, BoostGate, BoostMarks, RealBoosts
from trimtab.simulation.checks.convergence import Converged
from trimtab.simulation.checks.disruption import Disruption
from trimtab.simulation.checks.growth import PromptGrowth, PromptRescues, UpscaleEvictions
from trimtab.simulation.checks.new_pods import Acceptable, NodeRoom, Proportions, Sized
from trimtab.simulation.world.facts import (
    FaultBegan,
    FaultEnded,
    PodCreated,
    PodEvicted,
    PodPatched,
    PodRefused,
    PodResized,
    ProcessStarted,
)
from trimtab.simulation.world.objects import (
    ContainerTemplate,
    DisruptionBudget,
    HorizontalScaler,
    NodeObject,
    PodTemplate,
    QuotaObject,
    WorkloadObject,
)

MARK = annotation_name("app")
BOOSTED = {**BOOST_TOLD, MARK: "{}"}
LARGER = a_recommendation(target=amounts(200, 200 * MIB), lower=amounts(150, 150 * MIB))
MINUTE = timedelta(minutes=1)
WORKLOAD = WorkloadName("default", "Deployment", "web")
GATE_OFF = "gate off updater at 0:00:00"


def a_container(
    spec: Resources, status: Resources | None = None, limits: Resources | None = None
) -> Container:
    has = None if status is None else Allocation(status, limits)
    return Container("app", spec=Allocation(spec, limits), status=has, is_running=True)


# Availability


def evicted_while_worse(
    *, minutes: int, oom: bool = False, recovers: bool = False, restart: bool = False
) -> Scene:
    """One pod of three is evicted and does not come back; some time later another one is."""

    async def scene(stage: Stage) -> None:
        killed = Termination("OOMKilled", stage.world.now(), stage.world.now())
        container = Container(
            "app", spec=Allocation(USUAL), last_termination=killed if oom else None
        )
        first, second, _ = stage.put_pods(3, containers=(container,))
        stage.serving.evict("updater", first)
        await stage.wait(MINUTE)
        if recovers:
            stage.put_pod("successor")
        await stage.wait((minutes - 1) * MINUTE)
        if restart:
            stage.tell(ProcessStarted(stage.world.now(), "updater"))
        stage.serving.evict("updater", second)

    return scene


def evicted_while_others_take_pods_away(*, by_others: bool) -> Scene:
    """Ten minutes after an eviction only one pod of three is ready, perhaps not by our fault."""

    async def scene(stage: Stage) -> None:
        first, second, third = stage.put_pods(3)
        stage.serving.evict("updater", first)
        await stage.wait(MINUTE)
        if by_others:
            # The evicted pod is back, but another one has gone.
            stage.put_pod("successor")
            stage.serving.delete_pod(second)
        await stage.wait(9 * MINUTE)
        stage.serving.evict("updater", third)

    return scene


def evicted_while_one_is_missing(*, replicas: int) -> Scene:
    """One pod of so many is evicted and does not come back; ten minutes later another one is."""

    async def scene(stage: Stage) -> None:
        first, second, *_ = stage.put_pods(replicas)
        stage.serving.evict("updater", first)
        await stage.wait(10 * MINUTE)
        stage.serving.evict("updater", second)

    return scene


def evicted_after_scaling(*, replicas: int) -> Scene:
    """The owner wants so many pods by the time of the second eviction."""

    async def scene(stage: Stage) -> None:
        first, second, _ = stage.put_pods(3)
        stage.serving.evict("updater", first)
        await stage.wait(10 * MINUTE)
        stage.put_workload(replicas=replicas)
        stage.serving.evict("updater", second)

    return scene


def evicted_again_and_again(
    times: int, *, successor: int, status: int = 300, restart: bool = False, growth: float = 1.0
) -> Scene:
    """Pods that have some millicores, whatever they ask for, are evicted one after the other.

    Their memory grows by a factor each time.
    """

    async def scene(stage: Stage) -> None:
        stage.put_pods(1)
        for number in range(times):
            wanted, has = amounts(100, 100 * MIB), amounts(status, 100 * MIB)
            pod = stage.put_pod(f"pod-{number}", containers=(a_container(wanted, has),))
            stage.tell(PodEvicted(stage.world.now(), "updater", pod))
            made = a_container(amounts(successor, int(growth * 100 * MIB)))
            after = stage.put_pod(f"successor-{number}", containers=(made,))
            stage.tell(PodCreated(stage.world.now(), pod, after, (), webhook_answered=True))
            if restart:
                stage.tell(ProcessStarted(stage.world.now(), "updater"))
            await stage.wait(MINUTE)

    return scene


def evicted_together(*, all_crash: bool) -> Scene:
    """Three pods of four are evicted at once; each of them was lately OOM-killed, or none."""

    async def scene(stage: Stage) -> None:
        killed = Termination("OOMKilled", stage.world.now(), stage.world.now())
        end = killed if all_crash else None
        container = Container("app", spec=Allocation(USUAL), last_termination=end)
        stage.put_autoscaler(LARGER)
        for pod in stage.put_pods(4, containers=(container,))[:3]:
            stage.serving.evict("updater", pod)

    return scene


# Boosts


def unmarked(*, spec: int, status: int) -> Scene:
    """The mark of a boosted container goes while it has so many millicores."""

    async def scene(stage: Stage) -> None:
        container = a_container(amounts(spec, 100 * MIB), amounts(status, 100 * MIB))
        before = stage.put_pods(1, annotations=BOOSTED, containers=(container,))[0]
        after = stage.world.pods.put(structs.replace(before, annotations={}))
        stage.tell(PodPatched(stage.world.now(), "updater", before, after))

    return scene


def evicted_after_its_mark(*, reported: int) -> Scene:
    """A pod without its mark is evicted; the kubelet reports so many millicores by then."""

    async def scene(stage: Stage) -> None:
        boosted = a_container(amounts(300, 100 * MIB), amounts(300, 100 * MIB))
        pod = stage.put_pods(1, annotations=BOOSTED, containers=(boosted,))[0]
        asked = a_container(amounts(100, 100 * MIB), amounts(reported, 100 * MIB))
        pod = stage.world.pods.put(
            structs.replace(pod, annotations={}, containers=(asked,), resize=ResizeState.INFEASIBLE)
        )
        stage.serving.evict("updater", pod)

    return scene


def ended(*, after: Resources, boosted: bool = True) -> Scene:
    """A pod is resized, perhaps for the end of its boost."""

    async def scene(stage: Stage) -> None:
        old = a_container(amounts(300, 300 * MIB))
        before = stage.put_pods(1, annotations=BOOSTED if boosted else {}, containers=(old,))[0]
        resized = structs.replace(before, containers=(a_container(after),))
        stage.tell(PodResized(stage.world.now(), "updater", before, resized))

    return scene


def gated(
    *, millicores: int | None = None, target: int = 100, over: bool = False, boosted: bool = True
) -> Scene:
    """A pod is evicted or resized with the gate off at the updater, or after that."""

    async def scene(stage: Stage) -> None:
        recommendation = a_recommendation(target=amounts(50, target * MIB))
        stage.put_autoscaler(recommendation)
        pod = stage.put_pods(1, annotations=BOOSTED if boosted else {})[0]
        stage.tell(FaultBegan(stage.world.now(), GATE_OFF))
        if over:
            stage.tell(FaultEnded(stage.world.now(), GATE_OFF))
        stage.tell(ProcessStarted(stage.world.now(), "updater"))
        now = stage.world.now()
        if millicores is None:
            stage.tell(PodEvicted(now, "updater", pod))
            return
        after = structs.replace(pod, containers=(a_container(amounts(millicores, target * MIB)),))
        stage.tell(PodResized(now, "updater", pod, after))

    return scene


def marked(boost: CpuBoost | None) -> Scene:
    """A pod comes with the mark of a boost."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, boost=boost)
        wanted = stage.put_pods(1)[0]
        pod = stage.world.pods.put(structs.replace(wanted, annotations=BOOSTED))
        stage.tell(PodCreated(stage.world.now(), wanted, pod, (), webhook_answered=True))

    return scene


# New pods


def refused(
    flaw: str,
    *,
    own_flaw: str = "",
    fault: str = "",
    quota_is_new: bool = False,
    is_boosted: bool = True,
) -> Scene:
    """The API server refuses a pod, which is boosted or has another size."""

    async def scene(stage: Stage) -> None:
        containers = (Container("app", spec=Allocation(USUAL)),)
        marks = BOOSTED if is_boosted else {}
        pod = Pod("default", "web-1", annotations=marks, containers=containers)
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        await stage.wait(30 * MINUTE)
        if quota_is_new:
            stage.world.quotas.put(QuotaObject("default", "room", {}))
        stage.tell(PodRefused(stage.world.now(), pod, pod, flaw, own_flaw))

    return scene


def admitted(
    *,
    is_patched: bool,
    answered: bool = True,
    mode: UpdateMode = UpdateMode.RECREATE,
    fault: str = "",
) -> Scene:
    """A pod comes with the answer of admission, or without."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, mode=mode)
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        await stage.wait(30 * MINUTE)
        pod = stage.put_pods(1)[0]
        patch = set_amounts(pod, "requests", amounts(200)) if is_patched else ()
        stage.tell(PodCreated(stage.world.now(), pod, pod, patch, webhook_answered=answered))

    return scene


def given(limit: int, *, own_limit: int = 200, request: int = 50) -> Scene:
    """A pod that asks for 100m below some limit comes with another request and limit."""

    async def scene(stage: Stage) -> None:
        own = a_container(amounts(100), limits=amounts(own_limit))
        wanted = stage.put_pods(1, containers=(own,))[0]
        pod = structs.replace(
            wanted, containers=(a_container(amounts(request), limits=amounts(limit)),)
        )
        patch = set_amounts(wanted, "requests", amounts(request))
        stage.tell(PodCreated(stage.world.now(), wanted, pod, patch, webhook_answered=True))

    return scene


def a_crowded_node(stage: Stage, *, daemon: int) -> None:
    stage.world.nodes.put(NodeObject("node-1", amounts(1000, 1000 * MIB)))
    stage.put_pod(
        "agent",
        owner=OwnerReference("DaemonSet", "agent", "apps/v1", "agent"),
        containers=(a_container(amounts(daemon, 100 * MIB), amounts(daemon, 100 * MIB)),),
    )


def sized_for_a_node(
    millicores: int,
    *,
    daemon: int = 300,
    wanted: int = 100,
    minutes: int = 15,
    mode: UpdateMode = UpdateMode.OFF,
    target: int = 200,
) -> Scene:
    """A pod comes with so many millicores, beside a daemon on the only node."""

    async def scene(stage: Stage) -> None:
        agent = ContainerTemplate("app", Allocation(amounts(100, 100 * MIB)))
        template = PodTemplate({"app": "web"}, (agent,))
        stage.world.workloads_of("DaemonSet").put(
            WorkloadObject("default", "DaemonSet", "agent", template, SELECTOR, uid="agent")
        )
        stage.put_autoscaler(
            a_recommendation(target=amounts(target)),
            target=TargetReference("DaemonSet", "agent", "apps/v1"),
            mode=mode,
        )
        a_crowded_node(stage, daemon=daemon)
        await stage.wait(minutes * MINUTE)
        asked = stage.put_pod(
            "web", node_name="", containers=(a_container(amounts(wanted, 100 * MIB)),)
        )
        pod = structs.replace(asked, containers=(a_container(amounts(millicores, 100 * MIB)),))
        patch = set_amounts(pod, "requests", amounts(millicores))
        stage.tell(PodCreated(stage.world.now(), asked, pod, patch, webhook_answered=True))

    return scene


def resized_on_a_node(
    millicores: int,
    *,
    neighbour: int,
    minutes: int = 15,
    changes: bool = False,
    phase: PodPhase = PodPhase.RUNNING,
) -> Scene:
    """A pod is resized to so many millicores, beside a neighbour on its node."""

    async def scene(stage: Stage) -> None:
        a_crowded_node(stage, daemon=neighbour)
        for each in [*stage.world.pods]:
            stage.world.pods.put(structs.replace(each, phase=phase))
        pod = stage.put_pod("web")
        await stage.wait(minutes * MINUTE)
        if changes:
            stage.world.nodes.put(NodeObject("node-1", amounts(1000, 1000 * MIB), max_pods=20))
        after = structs.replace(pod, containers=(a_container(amounts(millicores, 100 * MIB)),))
        stage.tell(PodResized(stage.world.now(), "updater", pod, after))

    return scene


# Growth


def put_neighbour(stage: Stage, phase: PodPhase | None, cores: int) -> None:
    """A pod of no workload that asked for all of the node."""
    if phase is not None:
        whole = amounts(cores * 1000)
        stage.put_pod("neighbour", owner=None, containers=(a_container(whole),), phase=phase)


def left_small(
    *,
    minutes: int = 16,
    mode: UpdateMode = UpdateMode.IN_PLACE,
    cores: int = 4,
    is_bound: bool = False,
    fault: str = "",
    neighbour: PodPhase | None = None,
    **fields: object,
) -> Scene:
    """A pod below its bounds waits for so long, perhaps beside one that takes the whole node."""

    async def scene(stage: Stage) -> None:
        stage.world.nodes.put(NodeObject("node-1", amounts(cores * 1000, 8192 * MIB)))
        small = a_container(USUAL, USUAL)
        stage.put_pods(1, **({"containers": (small,)} | fields))
        stage.put_autoscaler(LARGER, mode=mode)
        put_neighbour(stage, neighbour, cores)
        if is_bound:
            stage.world.quotas.put(QuotaObject("default", "room", {}))
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        for _ in range(minutes):
            await stage.wait(MINUTE)
            stage.inspector.inspect()

    return scene


def left_beside_an_agent(given: int, *, recommended: int = 0) -> Scene:
    """A pod with so many millicores wants 3.95 cores, on a node of 4 that lacks its agent."""

    async def scene(stage: Stage) -> None:
        containers = (ContainerTemplate("agent", Allocation(amounts(100))),)
        template = PodTemplate({"app": "agent"}, containers)
        agents = WorkloadObject("default", "DaemonSet", "agent", template, SELECTOR, uid="agent")
        stage.world.workloads_of("DaemonSet").put(agents)
        if recommended:
            entry = a_recommendation("agent", target=amounts(recommended))
            target = TargetReference("DaemonSet", "agent")
            stage.put_autoscaler(entry, name="agents", target=target)
        size, wanted = amounts(given, 100 * MIB), amounts(3950, 100 * MIB)
        stage.put_autoscaler(
            a_recommendation(target=wanted, lower=wanted, upper=wanted), mode=UpdateMode.IN_PLACE
        )
        stage.world.nodes.put(NodeObject("node-1", amounts(4000, 8192 * MIB)))
        stage.put_pods(1, containers=(a_container(size, size),))
        for _ in range(16):
            await stage.wait(MINUTE)
            stage.inspector.inspect()

    return scene


def left_beside_a_large_container(*, is_held: bool) -> Scene:
    """Two pods wait for CPU of one container, for which another one would have to give some.

    A horizontal autoscaler may scale on the CPU of the other one, which then keeps it.
    """

    async def scene(stage: Stage) -> None:
        stage.world.nodes.put(NodeObject("node-1", amounts(1950, 8192 * MIB)))
        small = structs.replace(a_container(amounts(200), amounts(200)), name="proxy")
        stage.put_pods(2, containers=(a_container(amounts(700), amounts(700)), small))
        stage.put_autoscaler(
            a_recommendation("app", target=amounts(100), upper=amounts(100)),
            a_recommendation("proxy", target=amounts(400), lower=amounts(400)),
            mode=UpdateMode.IN_PLACE_OR_RECREATE,
        )
        if is_held:
            scaler = HorizontalScaler("default", "hpa", WORKLOAD, ("cpu",), ("app",))
            stage.world.scalers.put(scaler)
        stage.inspector.expect_quiet()
        for _ in range(32):
            stage.inspector.inspect()
            await stage.wait(MINUTE)

    return scene


def evicted_upscaled(
    *, target: int, lower: int = 90, mode: UpdateMode = UpdateMode.UPSCALE_ONLY, oom: bool = False
) -> Scene:
    """A pod of 100m and 100Mi is evicted; CPU should shrink, and memory changes."""

    async def scene(stage: Stage) -> None:
        killed = Termination("OOMKilled", stage.world.now(), stage.world.now())
        container = Container(
            "app", spec=Allocation(USUAL), last_termination=killed if oom else None
        )
        recommendation = a_recommendation(
            target=amounts(10, target * MIB),
            lower=amounts(10, lower * MIB),
            upper=amounts(20, 400 * MIB),
        )
        stage.put_autoscaler(recommendation, mode=mode)
        pod = stage.put_pods(1, containers=(container,))[0]
        stage.tell(PodEvicted(stage.world.now(), "updater", pod))

    return scene


def left_outside(*, cores: int, neighbour: PodPhase | None = None, updates: str = "") -> Scene:
    """Two pods outside their bounds are left alone on a node of some size."""

    async def scene(stage: Stage) -> None:
        stage.world.nodes.put(NodeObject("node-1", amounts(cores * 1000, 8192 * MIB)))
        stage.put_pods(2, annotations={UPDATES: updates})
        stage.put_autoscaler(LARGER)
        put_neighbour(stage, neighbour, cores)
        stage.inspector.expect_quiet()
        stage.inspector.inspect()
        await stage.wait(31 * MINUTE)

    return scene


def left_alone(
    target: int,
    *,
    pods: int = 1,
    restarts: bool = True,
    mode: UpdateMode = UpdateMode.RECREATE,
) -> Scene:
    """Pods with 100 millicores stay as they are, though so many are recommended."""
    cpu = amounts(target, 100 * MIB)
    kinds = frozenset(BOTH if restarts else ())

    async def scene(stage: Stage) -> None:
        stage.world.nodes.put(NodeObject("node-1", amounts(8000, 8192 * MIB)))
        container = Container("app", spec=Allocation(USUAL), restarts_on_resize=kinds)
        stage.put_pods(pods, containers=(container,))
        recommendation = a_recommendation(target=cpu, lower=cpu, upper=cpu)
        stage.put_autoscaler(recommendation, mode=mode, min_replicas=1)
        stage.inspector.expect_quiet()
        stage.inspector.inspect()
        await stage.wait(31 * MINUTE)

    return scene


def left_dying(
    *,
    minutes: int = 8,
    healthy: int = 0,
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE,
    memory: int = 200,
    fault: str = "",
    after: int = 0,
    restarts: bool = False,
    min_replicas: int | None = None,
    scaled_on: str = "cpu",
    must_stay: int = 0,
    killed: str = "app",
    has_lease: bool = True,
) -> Scene:
    """A container of pods goes on to be OOM-killed, perhaps beside pods that are well."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(2)
        target = a_recommendation(target=amounts(100, memory * MIB))
        stage.put_autoscaler(target, mode=mode, min_replicas=min_replicas)
        stage.world.scalers.put(HorizontalScaler("default", "hpa", WORKLOAD, (scaled_on,)))
        if must_stay:
            budget = DisruptionBudget("default", "web", SELECTOR, min_available=must_stay)
            stage.world.budgets.put(budget)
        for number in range(healthy):
            stage.put_pod(f"healthy-{number}")
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        for _ in range(minutes):
            now = stage.world.now()
            end = Termination("OOMKilled", now - after * MINUTE, now)
            small = structs.replace(
                a_container(USUAL, USUAL), restarts_on_resize=frozenset(BOTH if restarts else ())
            )
            containers = [
                structs.replace(each, last_termination=end if each.name == killed else None)
                for each in (small, structs.replace(small, name="proxy"))
            ]
            for number in range(2):
                stage.put_pod(f"web-1-{number}", containers=tuple(containers), ready_since=None)
            if has_lease:
                status = Lease("kube-system", "vpa-admission-controller", renewed_at=now)
                stage.world.leases.put(status)
            await stage.wait(MINUTE)
            stage.inspector.inspect()

    return scene


QUOTA = "exceeded quota: room, requested: requests.cpu=300"
RANGE = "maximum cpu usage per Container is 1000"

SINS = [
    pytest.param(
        Availability,
        evicted_while_worse(minutes=7),
        evicted_while_worse(minutes=4),
        id="changes go on while a workload is worse for long",
    ),
    pytest.param(
        Availability,
        evicted_while_worse(minutes=7),
        evicted_while_worse(minutes=7, recovers=True),
        id="changes go on before a workload has recovered",
    ),
    pytest.param(
        Availability,
        evicted_while_worse(minutes=7),
        evicted_while_worse(minutes=7, oom=True),
        id="a pod of a worse workload is evicted that is not OOM-killed",
    ),
    pytest.param(
        Availability,
        evicted_while_worse(minutes=7),
        evicted_while_worse(minutes=7, restart=True),
        id="a process goes on that knows of its changes",
    ),
    pytest.param(
        Availability,
        evicted_while_others_take_pods_away(by_others=False),
        evicted_while_others_take_pods_away(by_others=True),
        id="a workload is worse by our changes alone",
    ),
    pytest.param(
        Availability,
        evicted_while_one_is_missing(replicas=19),
        evicted_while_one_is_missing(replicas=20),
        id="more than one pod in twenty is missing",
    ),
    pytest.param(
        Availability,
        evicted_after_scaling(replicas=3),
        evicted_after_scaling(replicas=2),
        id="a workload has fewer pods than its owner wants",
    ),
    pytest.param(
        EvictionLoops,
        evicted_again_and_again(7, successor=300),
        evicted_again_and_again(7, successor=100),
        id="successors have what the pods before them had",
    ),
    pytest.param(
        EvictionLoops,
        evicted_again_and_again(7, successor=310),
        evicted_again_and_again(5, successor=310),
        id="many successors look much the same",
    ),
    pytest.param(
        EvictionLoops,
        evicted_again_and_again(7, successor=300, growth=1.04),
        evicted_again_and_again(7, successor=300, growth=1.06),
        id="successors have less than a bucket more memory",
    ),
    pytest.param(
        EvictionLoops,
        evicted_again_and_again(7, successor=300),
        evicted_again_and_again(7, successor=300, restart=True),
        id="one process evicts in a loop",
    ),
    pytest.param(
        Disruption,
        evicted_together(all_crash=False),
        evicted_together(all_crash=True),
        id="three of four that do not all crash",
    ),
    pytest.param(
        BoostMarks,
        unmarked(spec=100, status=300),
        unmarked(spec=100, status=100),
        id="a mark goes before the kubelet reports less CPU",
    ),
    pytest.param(
        BoostMarks,
        evicted_after_its_mark(reported=300),
        evicted_after_its_mark(reported=100),
        id="a pod is evicted whose unboost was refused",
    ),
    pytest.param(
        BoostEnds,
        ended(after=amounts(100, 200 * MIB)),
        ended(after=amounts(100, 300 * MIB)),
        id="the end of a boost changes memory",
    ),
    pytest.param(
        BoostEnds,
        ended(after=amounts(100, 200 * MIB)),
        ended(after=amounts(100, 200 * MIB), boosted=False),
        id="the end of a boost is more than that",
    ),
    pytest.param(
        BoostGate, gated(), gated(over=True), id="a pod is evicted for its boost with the gate off"
    ),
    pytest.param(
        BoostGate, gated(), gated(target=200), id="a pod is evicted for nothing but its boost"
    ),
    pytest.param(
        BoostGate,
        gated(millicores=50),
        gated(millicores=50, boosted=False),
        id="a boost ends with the gate off",
    ),
    pytest.param(
        BoostGate,
        gated(millicores=50, target=200),
        gated(millicores=100, target=200),
        id="a boost ends with the gate off along with something else",
    ),
    pytest.param(
        RealBoosts,
        marked(CpuBoost(factor=1)),
        marked(CpuBoost(factor=2)),
        id="a factor of 1 marks a pod",
    ),
    pytest.param(
        RealBoosts,
        marked(CpuBoost(BoostType.QUANTITY, quantity_millicores=0)),
        marked(CpuBoost(BoostType.QUANTITY, quantity_millicores=1)),
        id="a quantity of 0 marks a pod",
    ),
    pytest.param(
        Acceptable,
        refused(RANGE),
        refused(RANGE, own_flaw=RANGE),
        id="a patch makes a limit range refuse a pod",
    ),
    pytest.param(
        Acceptable,
        refused(QUOTA),
        refused(QUOTA, quota_is_new=True),
        id="a patch makes a known quota refuse a pod",
    ),
    pytest.param(
        Acceptable,
        refused(QUOTA),
        refused(QUOTA, fault="cut off admission at 0:00:00"),
        id="a patch makes a quota refuse a pod though admission works",
    ),
    pytest.param(
        Acceptable,
        refused(QUOTA, is_boosted=False),
        refused(QUOTA, own_flaw=QUOTA, is_boosted=False),
        id="a quota refuses a pod for its size",
    ),
    pytest.param(
        Sized,
        admitted(is_patched=False),
        admitted(is_patched=True),
        id="a governed pod is not sized",
    ),
    pytest.param(
        Sized,
        admitted(is_patched=False),
        admitted(is_patched=False, answered=False),
        id="a governed pod is not sized by an admission that answers",
    ),
    pytest.param(
        Sized,
        admitted(is_patched=False),
        admitted(is_patched=False, mode=UpdateMode.OFF),
        id="a pod is not sized in a mode that sizes it",
    ),
    pytest.param(
        Sized,
        admitted(is_patched=False),
        admitted(is_patched=False, fault="watches lost admission at 0:00:00"),
        id="a governed pod is not sized though admission works",
    ),
    pytest.param(Proportions, given(150, request=60), given(120, request=60), id="a large limit"),
    pytest.param(
        Proportions,
        given(101, own_limit=100),
        given(50, own_limit=100),
        id="a limit above the request of a guaranteed pod",
    ),
    pytest.param(
        NodeRoom,
        sized_for_a_node(800),
        sized_for_a_node(700),
        id="a new pod fits on no node beside its daemons",
    ),
    pytest.param(
        NodeRoom,
        sized_for_a_node(800),
        sized_for_a_node(800, wanted=900),
        id="a new pod fits on no node for its patch",
    ),
    pytest.param(
        NodeRoom,
        sized_for_a_node(800),
        sized_for_a_node(800, minutes=5),
        id="a new pod fits on no node beside daemons of old",
    ),
    pytest.param(
        NodeRoom,
        sized_for_a_node(800, mode=UpdateMode.RECREATE),
        sized_for_a_node(800, mode=UpdateMode.UPSCALE_ONLY),
        id="a new pod fits on no node beside daemons that may shrink",
    ),
    pytest.param(
        NodeRoom,
        sized_for_a_node(800, mode=UpdateMode.UPSCALE_ONLY, target=250),
        sized_for_a_node(750, mode=UpdateMode.UPSCALE_ONLY, target=250),
        id="a new pod fits on no node beside what daemons are recommended",
    ),
    pytest.param(
        NodeRoom,
        resized_on_a_node(700, neighbour=400),
        resized_on_a_node(600, neighbour=400),
        id="a resize does not fit on its node",
    ),
    pytest.param(
        NodeRoom,
        resized_on_a_node(700, neighbour=400),
        resized_on_a_node(700, neighbour=400, changes=True),
        id="a resize does not fit on a node that everybody knows",
    ),
    pytest.param(
        NodeRoom,
        resized_on_a_node(700, neighbour=400),
        resized_on_a_node(700, neighbour=400, phase=PodPhase.SUCCEEDED),
        id="a resize does not fit beside a pod that has not ended",
    ),
    pytest.param(PromptGrowth, left_small(), left_small(minutes=12), id="growth waits"),
    pytest.param(
        PromptGrowth, left_small(), left_small(mode=UpdateMode.RECREATE), id="growth in place waits"
    ),
    pytest.param(
        PromptGrowth,
        left_small(),
        left_small(resize=ResizeState.DEFERRED),
        id="growth waits that no node puts off",
    ),
    pytest.param(
        PromptGrowth,
        left_small(cores=1, minutes=30),
        left_small(cores=0, minutes=30),
        id="a node has room",
    ),
    pytest.param(
        PromptGrowth,
        left_small(neighbour=PodPhase.SUCCEEDED),
        left_small(neighbour=PodPhase.RUNNING),
        id="a node has room beside a pod that has ended",
    ),
    pytest.param(
        PromptGrowth,
        left_beside_a_large_container(is_held=False),
        left_beside_a_large_container(is_held=True),
        id="a node has room beside what the pod keeps",
    ),
    pytest.param(
        PromptGrowth,
        left_beside_an_agent(3890),
        left_beside_an_agent(3900),
        id="a pod has less than the largest node keeps for it",
    ),
    pytest.param(
        PromptGrowth,
        left_beside_an_agent(3800),
        left_beside_an_agent(3800, recommended=200),
        id="an agent is recommended no more than it has",
    ),
    pytest.param(
        Converged,
        left_beside_a_large_container(is_held=False),
        left_beside_a_large_container(is_held=True),
        id="pods that fit beside what they keep",
    ),
    pytest.param(PromptGrowth, left_small(), left_small(is_bound=True), id="no quota is near"),
    pytest.param(
        PromptGrowth,
        left_small(),
        left_small(
            containers=(
                structs.replace(a_container(USUAL, USUAL), restarts_on_resize=frozenset(BOTH)),
            )
        ),
        id="growth waits that restarts nothing",
    ),
    pytest.param(
        PromptGrowth,
        left_small(),
        left_small(fault="cut off updater at 0:00:00"),
        id="growth waits though everything works",
    ),
    pytest.param(
        UpscaleEvictions,
        evicted_upscaled(target=101),
        evicted_upscaled(target=110),
        id="an eviction for growth below the threshold",
    ),
    pytest.param(
        UpscaleEvictions,
        evicted_upscaled(target=101),
        evicted_upscaled(target=101, lower=101),
        id="an eviction for growth inside the bounds",
    ),
    pytest.param(
        UpscaleEvictions,
        evicted_upscaled(target=101),
        evicted_upscaled(target=101, oom=True),
        id="an eviction for little growth of a pod that is well",
    ),
    pytest.param(
        UpscaleEvictions,
        evicted_upscaled(target=90),
        evicted_upscaled(target=90, mode=UpdateMode.RECREATE),
        id="an eviction that only shrinks under UpscaleOnly",
    ),
    pytest.param(
        Converged, left_outside(cores=1), left_outside(cores=0), id="pods small for their node"
    ),
    pytest.param(
        Converged,
        left_outside(cores=1, neighbour=PodPhase.FAILED),
        left_outside(cores=1, neighbour=PodPhase.RUNNING),
        id="pods small for their node beside one that has ended",
    ),
    pytest.param(
        Converged,
        left_outside(cores=1, updates="container 0: cpu request"),
        left_outside(cores=1, updates="container 0: cpu capped to fit the largest node"),
        id="pods that nodes did not cut",
    ),
    pytest.param(Converged, left_alone(106), left_alone(104), id="pods that lack some of it"),
    pytest.param(
        Converged, left_alone(200), left_alone(50), id="a last ready pod that restarts to grow"
    ),
    pytest.param(
        Converged,
        left_alone(50, restarts=False),
        left_alone(50),
        id="a last ready pod that goes on",
    ),
    pytest.param(Converged, left_alone(50, pods=2), left_alone(50), id="one of two ready pods"),
    pytest.param(
        Converged,
        left_alone(89, pods=2),
        left_alone(94, pods=2),
        id="pods that restart to give back much",
    ),
    pytest.param(
        Converged,
        left_alone(94, pods=2, restarts=False, mode=UpdateMode.IN_PLACE_OR_RECREATE),
        left_alone(94, pods=2, restarts=False, mode=UpdateMode.RECREATE),
        id="pods that give back a little without a restart",
    ),
    pytest.param(PromptRescues, left_dying(), left_dying(minutes=5), id="all pods go on dying"),
    pytest.param(
        PromptRescues, left_dying(), left_dying(healthy=1), id="there is no pod that is well"
    ),
    pytest.param(
        PromptRescues, left_dying(), left_dying(killed="proxy"), id="more memory ends the kills"
    ),
    pytest.param(
        PromptRescues, left_dying(), left_dying(mode=UpdateMode.OFF), id="the mode may help"
    ),
    pytest.param(
        PromptRescues, left_dying(), left_dying(memory=100), id="more memory is recommended"
    ),
    pytest.param(
        PromptRescues,
        left_dying(),
        left_dying(fault="cut off updater at 0:00:00"),
        id="pods go on dying though everything works",
    ),
    pytest.param(
        PromptRescues,
        left_dying(),
        left_dying(has_lease=False),
        id="pods go on dying though admission renews its lease",
    ),
    pytest.param(
        PromptRescues,
        left_dying(after=9),
        left_dying(after=10),
        id="pods die again soon after each start",
    ),
    pytest.param(
        PromptRescues,
        left_dying(),
        left_dying(scaled_on="memory"),
        id="no horizontal autoscaler scales on memory",
    ),
    pytest.param(
        PromptRescues,
        left_dying(restarts=True),
        left_dying(restarts=True, min_replicas=3),
        id="there are pods enough for a restart",
    ),
    pytest.param(
        PromptRescues,
        left_dying(min_replicas=3),
        left_dying(min_replicas=3, restarts=True),
        id="growth that restarts nothing needs no other pods",
    ),
    pytest.param(
        PromptRescues,
        left_dying(restarts=True),
        left_dying(restarts=True, must_stay=1),
        id="no PodDisruptionBudget forbids a restart",
    ),
    pytest.param(
        PromptRescues,
        left_dying(must_stay=1),
        left_dying(must_stay=1, restarts=True),
        id="growth that restarts nothing needs no PodDisruptionBudget",
    ),
]


@pytest.mark.parametrize(("checker", "sin", "_"), SINS)
def test_each_checker_objects_to_its_sin(checker: type[Checker], sin: Scene, _: Scene) -> None:
    assert judge(checker, sin)


@pytest.mark.parametrize(("checker", "_", "twin"), SINS)
def test_each_checker_has_nothing_against_the_honest_twin(
    checker: type[Checker], _: Scene, twin: Scene
) -> None:
    assert judge(checker, twin) == []
