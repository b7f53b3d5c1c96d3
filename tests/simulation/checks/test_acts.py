"""Every checker of acts objects to its sin, and has nothing against the honest twin."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from simulation.toys import (
    SELECTOR,
    USUAL,
    ActWhenElected,
    EvictEverything,
    PublishTo,
    ResizeEverything,
    Scene,
    Stage,
    judge,
    set_amounts,
)
from support.makers.records import BOOST_TOLD, MIB, a_recommendation, amounts

from trimtab.api.kinds.leases import Lease
from trimtab.core.model.autoscalers import (
    ChangeDirection,
    Condition,
    ContainerPolicy,
    ControlledValues,
    EvictionRequirement,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.json_patch import Add
from trimtab.core.model.pods import (
    Allocation,
    Container,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.core.updates.conditions import UpdateConditionType
from trimtab.simulation.checks.admission import AdmissionAlive, RequestBounds
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.boosts import Boosts
from trimtab.simulation.checks.convergence import Converged, CoolDown, Futility, Quiet
from trimtab.simulation.checks.disruption import Disruption, EvictionRate, PodBudgets
from trimtab.simulation.checks.leaders import Leaders
from trimtab.simulation.checks.modes import HorizontalHolds, Modes
from trimtab.simulation.world.facts import (
    FaultBegan,
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
    PodTemplate,
    QuotaObject,
    Startup,
    WorkloadObject,
)
from trimtab.simulation.world.virtual_time import START

POLICY = ContainerPolicy("*", min_allowed=amounts(50, 64 * MIB), max_allowed=amounts(400))
LARGER = a_recommendation(target=amounts(200, 200 * MIB))
SMALLER = a_recommendation(target=amounts(50, 50 * MIB))
WORKLOAD = WorkloadName("default", "Deployment", "web")
BOOSTED = {**BOOST_TOLD, annotation_name("app"): "{}"}
BUDGET = DisruptionBudget("default", "web", SELECTOR, min_available=2)
AT_MOST_ONE = DisruptionBudget("default", "web", SELECTOR, max_unavailable=1)
OOM_KILL = Termination("OOMKilled", START, START)
KILLED = Container("app", spec=Allocation(USUAL), last_termination=OOM_KILL)


RESTARTING = Container("app", spec=Allocation(USUAL), restarts_on_resize=frozenset(BOTH))
DYING = structs.replace(RESTARTING, last_termination=OOM_KILL)
WITHOUT_EFFECT = Condition(UpdateConditionType.WITHOUT_EFFECT, "True")


def resized(
    requests: tuple[int | None, int | None],
    mode: UpdateMode = UpdateMode.IN_PLACE,
    policy: ContainerPolicy = POLICY,
    replicas: int = 1,
    conditions: tuple[Condition, ...] = (),
    **pod: object,
) -> Scene:
    """Pods of 100m and 100Mi are resized in place under an autoscaler."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(replicas, **pod)
        stage.put_autoscaler(LARGER, mode=mode, policies=(policy,), conditions=conditions)
        await stage.play(ResizeEverything((amounts(*requests),)))

    return scene


def resized_after_refusal(flaw: str) -> Scene:
    """A boosted pod that is not ready is resized after another pod was refused."""

    async def scene(stage: Stage) -> None:
        pod = stage.put_pods(2)[1]
        stage.tell(PodRefused(stage.world.now(), pod, pod, flaw, flaw))
        await resized((50, None), annotations=BOOSTED, ready_since=None)(stage)

    return scene


def rescued(
    requests: tuple[int, int],
    budget: DisruptionBudget | None = None,
    replicas: int = 2,
    conditions: tuple[Condition, ...] = (),
    **pod: object,
) -> Scene:
    """Pods that may only be evicted are resized in place, perhaps because of a budget."""

    async def scene(stage: Stage) -> None:
        if budget is not None:
            stage.world.budgets.put(budget)
        mode = UpdateMode.RECREATE
        given = {"ready_since": stage.world.now() - timedelta(hours=1), **pod}
        await resized(requests, mode, POLICY, replicas, conditions, **given)(stage)

    return scene


def taken_back(state: ResizeState, millicores: int = 100) -> Scene:
    """The end of a boost under Recreate lets a pod grow; its node puts it off, and it is undone."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, mode=UpdateMode.RECREATE)
        has = Allocation(USUAL)
        grown = Container("app", spec=Allocation(amounts(200, 200 * MIB)), status=has)
        boosted = stage.put_pods(1, annotations=BOOSTED)[0]
        waiting = structs.replace(boosted, annotations={}, containers=(grown,), resize=state)
        again = structs.replace(grown, spec=Allocation({**USUAL, Resource.CPU: millicores}))
        undone = structs.replace(waiting, containers=(again,))
        for before, after in ((boosted, waiting), (waiting, undone)):
            stage.tell(PodResized(stage.world.now(), "updater", before, after))

    return scene


def resized_after_an_edit(minutes_later: int) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(1)
        before = stage.put_autoscaler(LARGER, mode=UpdateMode.IN_PLACE, policies=(POLICY,))
        await stage.wait(timedelta(hours=1))
        stricter = replace(POLICY, max_allowed=amounts(150))
        stage.world.change_autoscaler(replace(before, policies=(stricter,)))
        await stage.wait(timedelta(minutes=minutes_later))
        await stage.play(ResizeEverything((amounts(200),)))

    return scene


def scaled_on(resource: str, then: Scene) -> Scene:
    """The same of a Deployment that is scaled horizontally."""

    async def scene(stage: Stage) -> None:
        stage.world.scalers.put(HorizontalScaler("default", "hpa", WORKLOAD, (resource,)))
        await then(stage)

    return scene


def admitted(cpu: int, *, annotations: dict[str, str] | None = None) -> Scene:
    """A pod comes into the world with what admission gave it."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, policies=(POLICY,))
        wanted = stage.put_pods(1)[0]
        pod = structs.replace(wanted, annotations=annotations or {})
        patch = set_amounts(wanted, "requests", amounts(cpu))
        stage.tell(PodCreated(stage.world.now(), pod, pod, patch, webhook_answered=True))

    return scene


def evicted(mode: UpdateMode | None, recommendation: object = LARGER) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(1)
        if mode is not None:
            stage.put_autoscaler(recommendation, mode=mode)  # type: ignore[arg-type]
        await stage.play(EvictEverything())

    return scene


def evicted_at_once(
    count: int,
    *,
    of: int,
    successor: str = "",
    later: int = 0,
    min_replicas: int | None = None,
    **pod: object,
) -> Scene:
    """Some pods of a group are evicted, perhaps with a successor after the first eviction."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(of, **pod)
        stage.put_autoscaler(LARGER, min_replicas=min_replicas)
        await stage.play(EvictEverything(most=1 if successor else count))
        await stage.wait(timedelta(minutes=1))
        if successor:
            ready_since = stage.world.now() if successor == "ready" else None
            phase = PodPhase.PENDING if successor == "pending" else PodPhase.RUNNING
            stage.put_pod("successor", ready_since=ready_since, phase=phase)
            await stage.wait(timedelta(minutes=later))
            await stage.play(EvictEverything(most=1))

    return scene


def evicted_beside(*, is_ready: bool) -> Scene:
    """The first of two pods is evicted, an hour after the other one stopped being ready."""

    async def scene(stage: Stage) -> None:
        _, other = stage.put_pods(2)
        stage.put_autoscaler(LARGER)
        if not is_ready:
            stage.world.pods.put(structs.replace(other, ready_since=None))
        await stage.wait(timedelta(hours=1))
        await stage.play(EvictEverything(most=1))

    return scene


def restarted(*, restarts: bool) -> Scene:
    async def scene(stage: Stage) -> None:
        kinds = frozenset(BOTH if restarts else ())
        container = Container("app", spec=Allocation(USUAL), restarts_on_resize=kinds)
        stage.put_pods(2, containers=(container,))
        stage.put_autoscaler(LARGER)
        await stage.play(ResizeEverything((amounts(200),)))

    return scene


def evicted_after_the_lease(
    silence: timedelta | None, fault: str = "", *, is_stolen: bool = False
) -> Scene:
    """A pod is evicted so long after admission last said that it lives."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(2)
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        if silence is not None:
            lease = Lease("kube-system", "vpa-admission-controller", holder="admission")
            stage.serving.write_lease("admission", lease)
            await stage.wait(silence)
            if is_stolen:
                stage.world.leases.put(replace(lease, holder="thief"))
        await stage.play(EvictEverything(most=1))

    return scene


def resized_again(
    after: timedelta, *, to: int = 120, memory: int | None = None, **pod: object
) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(1, **pod)
        await stage.play(ResizeEverything((amounts(150), amounts(to, memory)), after))

    return scene


def evicted_after_a_resize(target: int) -> Scene:
    """A pod that was OOM-killed is resized and evicted; so much memory is recommended for it."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(a_recommendation(target=amounts(100, target * MIB)))
        before = stage.put_pods(1, containers=(KILLED,))[0]
        stage.tell(PodResized(stage.world.now(), "updater", before, before))
        await stage.wait(timedelta(minutes=1))
        stage.tell(PodEvicted(stage.world.now(), "updater", before))

    return scene


def resized_by_two(*, same_process: bool) -> Scene:
    async def scene(stage: Stage) -> None:
        before = stage.put_pods(1)[0]
        stage.tell(PodResized(stage.world.now(), "updater", before, before))
        if not same_process:
            stage.tell(ProcessStarted(stage.world.now(), "updater"))
        stage.tell(PodResized(stage.world.now(), "updater", before, before))

    return scene


def evicted_while_it_goes(*, goes: bool) -> Scene:
    async def scene(stage: Stage) -> None:
        pod = stage.put_pods(1, is_deleting=goes)[0]
        stage.tell(PodEvicted(stage.world.now(), "updater", pod))

    return scene


def evicted_in_vain(
    times: int, *, successor: int, last_after: timedelta, restart: bool = False
) -> Scene:
    """Each successor comes in with so many millicores; then one more pod is evicted."""

    async def scene(stage: Stage) -> None:
        pod = stage.put_pods(1)[0]
        for number in range(times):
            stage.tell(PodEvicted(stage.world.now(), "updater", pod))
            made = Container("app", spec=Allocation(amounts(successor, 100 * MIB)))
            after = stage.put_pod(f"successor-{number}", containers=(made,))
            stage.tell(PodCreated(stage.world.now(), pod, after, (), webhook_answered=True))
        await stage.wait(last_after)
        if restart:
            stage.tell(ProcessStarted(stage.world.now(), "updater"))
        stage.tell(PodEvicted(stage.world.now(), "updater", pod))

    return scene


def unboosted_later(*, has_node: bool, fault: str = "") -> Scene:
    """A boosted pod found no node at first, perhaps finds one, and is resized two minutes later."""

    async def scene(stage: Stage) -> None:
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        await stage.wait(timedelta(minutes=20))
        since = stage.world.now()
        boosted = {"annotations": BOOSTED, "ready_since": None}
        stage.put_autoscaler(LARGER, mode=UpdateMode.IN_PLACE)
        stage.put_pods(1, unschedulable_since=since, **boosted)
        if has_node:
            stage.put_pods(1, **boosted)
        await stage.wait(timedelta(minutes=2))
        await stage.play(ResizeEverything((amounts(50, None),)))

    return scene


def boosted_for(span: timedelta, *, fault: str = "", **pod: object) -> Scene:
    """A pod is boosted all the time while an updater runs that does nothing about it."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(1, annotations=BOOSTED, **pod)
        stage.tell(ProcessStarted(stage.world.now(), "updater"))
        if fault:
            stage.tell(FaultBegan(stage.world.now(), fault))
        await stage.wait(span)

    return scene


def evicted_past_refusals(*, ready: int, budget: DisruptionBudget = BUDGET, **pod: object) -> Scene:
    """Somebody finds a way around the refusals of the eviction API."""

    async def scene(stage: Stage) -> None:
        pods = stage.put_pods(ready, **pod)
        stage.world.budgets.put(budget)
        stage.tell(PodEvicted(stage.world.now(), "toy", pods[0]))

    return scene


def evicted_at_most(budget: DisruptionBudget, *, pods: int) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_pods(pods)
        stage.world.budgets.put(budget)
        await stage.play(EvictEverything())

    return scene


def evicted_every(pause: timedelta, *, pods: int, fault: str = "") -> Scene:
    """All pods are evicted one after the other; after some of them a clock may be set."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(pods)
        if fault:
            await stage.play(EvictEverything(pause, most=5))
            stage.tell(FaultBegan(stage.world.now(), fault))
        await stage.play(EvictEverything(pause))

    return scene


def two_terms(*, first_acts_until: int) -> Scene:
    """The second copy takes the lease from the first one after twenty seconds, and acts."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        acts = tuple(timedelta(seconds=at) for at in range(5, first_acts_until, 10))
        stage.start(ActWhenElected(timedelta(), acts), "first")
        takeover = timedelta(seconds=20)
        stage.start(ActWhenElected(takeover, (timedelta(seconds=23),)), "second")
        await stage.wait(timedelta(minutes=1))

    return scene


def restless(
    *, targets: tuple[int, ...], quiet_after: int, evictions: int = 0, falls: bool = False
) -> Scene:
    """A recommender publishes one target after the other, and an updater acts on the last.

    If targets fall, another one is published after each eviction.
    """

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER)
        stage.put_pods(1)
        for number, target in enumerate(targets):
            if number == quiet_after:
                stage.inspector.expect_quiet()
            await stage.play(PublishTo((a_recommendation(target=amounts(target)),)))
        for number in range(evictions):
            stage.put_pods(1)
            await stage.play(EvictEverything())
            if falls:
                lower = a_recommendation(target=amounts(targets[-1] - 1 - number))
                await stage.play(PublishTo((lower,)))

    return scene


def restless_job(
    *, kind: str = "Job", minutes: int | None = None, target: Resources | None = None
) -> Scene:
    """The target of a boosted pod rises, or of one whose boost ended so many minutes ago."""

    async def scene(stage: Stage) -> None:
        template = PodTemplate({"app": "web"}, (ContainerTemplate("app"),))
        job = WorkloadObject("default", kind, "job", template, SELECTOR, uid="job")
        stage.world.workloads_of(kind).put(job)
        pod = stage.put_pod("job-1", owner=job.reference, annotations=BOOSTED)
        stage.put_autoscaler(SMALLER, target=TargetReference(kind, "job"))
        stage.inspector.expect_quiet()
        if minutes is not None:
            after = stage.world.pods.put(structs.replace(pod, annotations={}))
            stage.tell(PodPatched(stage.world.now(), "updater", pod, after))
            await stage.wait(timedelta(minutes=minutes))
        more = a_recommendation(target=target or amounts(60, 50 * MIB))
        await stage.play(PublishTo((more,)))

    return scene


def restless_start(
    *,
    needs: int = 150,
    work_cpu_seconds: float = 20.0,
    is_ready: bool = False,
    minutes: int | None = None,
    target: Resources | None = None,
) -> Scene:
    """The target of a pod of 100m that starts rises, maybe minutes after it got 200m."""

    async def scene(stage: Stage) -> None:
        startup = Startup(work_cpu_seconds=work_cpu_seconds)
        container = ContainerTemplate("app", startup=startup, needs=amounts(needs))
        stage.world.templates["uid-web-1-0"] = PodTemplate({"app": "web"}, (container,))
        running = Container("app", spec=Allocation(USUAL), is_running=True)
        since = stage.world.now() if is_ready else None
        (pod,) = stage.put_pods(1, containers=(running,), ready_since=since)
        stage.put_autoscaler(SMALLER)
        stage.inspector.expect_quiet()
        if minutes is not None:
            stage.inspector.inspect()
            grown = structs.replace(running, spec=Allocation(amounts(200)))
            stage.world.pods.put(structs.replace(pod, containers=(grown,)))
            await stage.wait(timedelta(minutes=minutes))
        more = a_recommendation(target=target or amounts(60, 50 * MIB))
        await stage.play(PublishTo((more,)))

    return scene


def left_alone(
    *, minutes: int = 31, recommendation: object = LARGER, replicas: int = 2, **fields: object
) -> Scene:
    """Nobody does anything about some pods for so long, though everything is quiet."""

    async def scene(stage: Stage) -> None:
        stage.put_pods(replicas)
        stage.put_autoscaler(recommendation, **fields)  # type: ignore[arg-type]
        stage.inspector.expect_quiet()
        stage.inspector.inspect()
        await stage.wait(timedelta(minutes=minutes))

    return scene


def left_alone_in(namespace: str, budget: DisruptionBudget | None = None) -> Scene:
    """The same, with a quota in some namespace, or a budget."""

    async def scene(stage: Stage) -> None:
        stage.world.quotas.put(QuotaObject(namespace, "room", {}))
        if budget is not None:
            stage.world.budgets.put(budget)
        await left_alone()(stage)

    return scene


ONLY_CPU = EvictionRequirement((Resource.CPU,), ChangeDirection.TARGET_LOWER)

SINS = [
    pytest.param(
        HorizontalHolds,
        scaled_on("cpu", resized((300, None))),
        scaled_on("memory", resized((300, None))),
        id="CPU although it is scaled on",
    ),
    pytest.param(
        HorizontalHolds,
        scaled_on("cpu", resized((300, None))),
        scaled_on("cpu", resized((300, None), annotations=BOOSTED)),
        id="CPU that is scaled on, and is no boost",
    ),
    pytest.param(
        HorizontalHolds,
        scaled_on("memory", resized((None, 300 * MIB))),
        scaled_on("memory", resized((None, 100 * MIB))),
        id="memory although it is scaled on",
    ),
    pytest.param(
        HorizontalHolds,
        scaled_on("cpu", admitted(300)),
        scaled_on("cpu", admitted(100)),
        id="admission changes CPU although it is scaled on",
    ),
    pytest.param(
        RequestBounds, resized((None, 10 * MIB)), resized((None, 64 * MIB)), id="below minAllowed"
    ),
    pytest.param(RequestBounds, resized((500, None)), resized((400, None)), id="above maxAllowed"),
    pytest.param(
        RequestBounds,
        resized((500, None)),
        resized((500, None), annotations=BOOSTED),
        id="above maxAllowed without a boost",
    ),
    pytest.param(RequestBounds, admitted(500), admitted(300), id="admission above maxAllowed"),
    pytest.param(
        RequestBounds,
        admitted(500),
        admitted(500, annotations=BOOSTED),
        id="admission above maxAllowed without a boost",
    ),
    pytest.param(
        RequestBounds,
        resized_after_an_edit(11),
        resized_after_an_edit(1),
        id="by a policy that changed long ago",
    ),
    pytest.param(
        RequestBounds,
        resized(
            (40, None), policy=replace(POLICY, controlled_values=ControlledValues.REQUESTS_ONLY)
        ),
        resized(
            (40, None),
            policy=replace(POLICY, controlled_values=ControlledValues.REQUESTS_ONLY),
            containers=(Container("app", spec=Allocation(amounts(30, 1), amounts(40, 2))),),
        ),
        id="below minAllowed though the limit has room",
    ),
    pytest.param(
        Modes,
        resized((200, 50 * MIB), UpdateMode.UPSCALE_ONLY),
        resized((200, 100 * MIB), UpdateMode.UPSCALE_ONLY),
        id="UpscaleOnly shrinks",
    ),
    pytest.param(
        Modes,
        resized((50, 100 * MIB), UpdateMode.UPSCALE_ONLY),
        resized((50, 100 * MIB), UpdateMode.UPSCALE_ONLY, annotations=BOOSTED),
        id="UpscaleOnly takes CPU away that no boost gave",
    ),
    pytest.param(
        Modes,
        resized((200, None), UpdateMode.OFF),
        resized((200, None), UpdateMode.OFF, annotations=BOOSTED),
        id="Off resizes without a boost",
    ),
    pytest.param(
        Modes,
        resized((200, None), UpdateMode.RECREATE),
        resized((200, None), UpdateMode.IN_PLACE_OR_RECREATE),
        id="Recreate resizes",
    ),
    pytest.param(
        Modes,
        taken_back(ResizeState.IN_PROGRESS),
        taken_back(ResizeState.DEFERRED),
        id="Recreate undoes the end of a boost that is under way",
    ),
    pytest.param(
        Modes,
        taken_back(ResizeState.DEFERRED, millicores=101),
        taken_back(ResizeState.INFEASIBLE),
        id="Recreate gives more than a pod has in place of what was put off",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), containers=(KILLED,)),
        rescued((200, 200 * MIB), BUDGET, containers=(KILLED,)),
        id="Recreate resizes a dying pod that nothing keeps from eviction",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), containers=(KILLED,)),
        rescued((200, 200 * MIB), replicas=1, containers=(KILLED,)),
        id="Recreate resizes dying pods of enough replicas",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), containers=(KILLED,)),
        rescued((200, 200 * MIB), containers=(KILLED,), conditions=(WITHOUT_EFFECT,)),
        id="Recreate resizes dying pods whose evictions would help",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), containers=(KILLED,)),
        rescued((200, 200 * MIB), containers=(KILLED,), ready_since=None),
        id="Recreate resizes dying pods whose siblings are ready",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), containers=(KILLED,)),
        rescued((200, 200 * MIB), containers=(KILLED,), ready_since=START),
        id="Recreate resizes dying pods whose siblings were ready at the time of the plan",
    ),
    pytest.param(
        Modes,
        rescued((200, 200 * MIB), BUDGET),
        rescued((200, 200 * MIB), BUDGET, containers=(KILLED,)),
        id="Recreate resizes a protected pod that is well",
    ),
    pytest.param(
        Modes,
        rescued((50, 200 * MIB), BUDGET, containers=(KILLED,)),
        rescued((100, 200 * MIB), BUDGET, containers=(KILLED,)),
        id="Recreate takes something away from a dying pod",
    ),
    pytest.param(Modes, evicted(UpdateMode.OFF), evicted(UpdateMode.RECREATE), id="Off evicts"),
    pytest.param(
        Modes,
        evicted(UpdateMode.INITIAL),
        evicted(UpdateMode.AUTO),
        id="Initial evicts",
    ),
    pytest.param(
        Modes,
        evicted(UpdateMode.IN_PLACE),
        evicted(UpdateMode.IN_PLACE_OR_RECREATE),
        id="InPlace evicts",
    ),
    pytest.param(Modes, evicted(None), evicted(UpdateMode.RECREATE), id="nobody governs the pod"),
    pytest.param(
        Modes,
        evicted(UpdateMode.UPSCALE_ONLY, SMALLER),
        evicted(UpdateMode.UPSCALE_ONLY, LARGER),
        id="UpscaleOnly evicts a pod that would shrink",
    ),
    pytest.param(
        Modes,
        evicted(UpdateMode.UPSCALE_ONLY, a_recommendation(target=amounts(50, 101 * MIB))),
        evicted(UpdateMode.UPSCALE_ONLY, a_recommendation(target=amounts(50, 110 * MIB))),
        id="UpscaleOnly evicts a pod for a mebibyte",
    ),
    pytest.param(
        PodBudgets,
        evicted_past_refusals(ready=2),
        evicted_past_refusals(ready=3),
        id="an eviction past a budget",
    ),
    pytest.param(
        PodBudgets,
        evicted_past_refusals(ready=3, budget=replace(BUDGET, min_available=None)),
        evicted_past_refusals(ready=3, budget=AT_MOST_ONE),
        id="an eviction that leaves too few of those that are wanted",
    ),
    pytest.param(
        PodBudgets,
        evicted_past_refusals(ready=2),
        evicted_past_refusals(ready=2, phase=PodPhase.PENDING),
        id="an eviction of a pod that runs",
    ),
    pytest.param(
        EvictionRate,
        evicted_every(timedelta(), pods=12),
        evicted_every(timedelta(), pods=12, fault="clock skew updater at 1:00:00"),
        id="more at once by a clock that goes right",
    ),
    pytest.param(
        EvictionRate,
        evicted_every(timedelta(seconds=0.5), pods=25),
        evicted_every(timedelta(seconds=1), pods=25),
        id="twice as fast as allowed",
    ),
    pytest.param(
        EvictionRate,
        evicted_every(timedelta(), pods=12),
        evicted_every(timedelta(), pods=10),
        id="more at once than the burst",
    ),
    pytest.param(
        Leaders,
        two_terms(first_acts_until=30),
        two_terms(first_acts_until=20),
        id="the old leader goes on when there is a new one",
    ),
    pytest.param(
        Disruption, evicted_at_once(3, of=4), evicted_at_once(2, of=4), id="three of four"
    ),
    pytest.param(
        Disruption,
        evicted_at_once(2, of=2, successor="starting"),
        evicted_at_once(2, of=2, successor="ready"),
        id="before the successor is ready",
    ),
    pytest.param(
        Disruption,
        evicted_at_once(2, of=2, successor="starting", later=4),
        evicted_at_once(2, of=2, successor="starting", later=6),
        id="before the successor had time to be ready",
    ),
    pytest.param(
        Disruption,
        evicted_at_once(2, of=2, successor="pending", later=60),
        evicted_at_once(2, of=2, successor="ready", later=60),
        id="long before the successor runs at all",
    ),
    pytest.param(
        Disruption,
        evicted_at_once(1, of=1),
        evicted_at_once(1, of=1, min_replicas=1),
        id="the only replica",
    ),
    pytest.param(
        Disruption,
        evicted_beside(is_ready=False),
        evicted_beside(is_ready=True),
        id="the only ready pod",
    ),
    pytest.param(
        Disruption,
        evicted_at_once(1, of=2, owner=None),
        evicted_at_once(1, of=2),
        id="a pod that nobody owns",
    ),
    pytest.param(
        Disruption, restarted(restarts=True), restarted(restarts=False), id="all restarted"
    ),
    pytest.param(
        Disruption,
        resized((200, 200 * MIB), containers=(RESTARTING,)),
        resized((200, 200 * MIB), containers=(DYING,), ready_since=None),
        id="a single replica restarted that does not die",
    ),
    pytest.param(
        Disruption,
        resized((200, 100 * MIB), containers=(DYING,), ready_since=None),
        resized((200, 200 * MIB), containers=(DYING,), ready_since=None),
        id="a dying single replica restarted for CPU",
    ),
    pytest.param(
        Disruption,
        resized((200, 200 * MIB), containers=(DYING,)),
        resized((200, 200 * MIB), containers=(DYING,), ready_since=None),
        id="a single replica restarted while it is ready",
    ),
    pytest.param(
        AdmissionAlive,
        evicted_after_the_lease(None),
        evicted_after_the_lease(timedelta()),
        id="nobody admits pods",
    ),
    pytest.param(
        AdmissionAlive,
        evicted_after_the_lease(timedelta(minutes=5)),
        evicted_after_the_lease(timedelta(minutes=2)),
        id="admission is away",
    ),
    pytest.param(
        AdmissionAlive,
        evicted_after_the_lease(timedelta(minutes=5)),
        evicted_after_the_lease(timedelta(minutes=5), is_stolen=True),
        id="seed 700015: nobody renews the lease, not even a stranger",
    ),
    pytest.param(
        AdmissionAlive,
        evicted_after_the_lease(timedelta(minutes=5)),
        evicted_after_the_lease(timedelta(minutes=5), "clock skew updater at 1:00:00"),
        id="admission is away by everybody's clock",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=4)),
        resized_again(timedelta(minutes=5)),
        id="shrunk too soon",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=1)),
        resized_again(timedelta(minutes=1), to=200),
        id="shrunk where it might have grown",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=1), to=200, containers=(RESTARTING,)),
        resized_again(timedelta(minutes=5), to=200, containers=(RESTARTING,)),
        id="restarted too soon",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=1)),
        resized_again(timedelta(minutes=1), resize=ResizeState.DEFERRED),
        id="resized twice though the first one was done",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=1), memory=200 * MIB),
        resized_again(timedelta(minutes=1), memory=200 * MIB, containers=(KILLED,)),
        id="resized twice though it did not run out of memory",
    ),
    pytest.param(
        CoolDown,
        resized_again(timedelta(minutes=1), memory=100 * MIB, containers=(KILLED,)),
        resized_again(timedelta(minutes=1), memory=101 * MIB, containers=(KILLED,)),
        id="resized twice though that gives no memory to a container that ran out of it",
    ),
    pytest.param(
        CoolDown,
        evicted_after_a_resize(target=100),
        evicted_after_a_resize(target=200),
        id="evicted after a resize though that ends no OOM kills",
    ),
    pytest.param(
        CoolDown,
        resized_by_two(same_process=True),
        resized_by_two(same_process=False),
        id="resized twice by a process that knows of the first time",
    ),
    pytest.param(
        CoolDown,
        evicted_while_it_goes(goes=True),
        evicted_while_it_goes(goes=False),
        id="evicted twice",
    ),
    pytest.param(
        Futility,
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=11)),
        evicted_in_vain(3, successor=200, last_after=timedelta(minutes=11)),
        id="no successor gets its size",
    ),
    pytest.param(
        Futility,
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=11)),
        evicted_in_vain(2, successor=100, last_after=timedelta(minutes=11)),
        id="after three misses",
    ),
    pytest.param(
        Futility,
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=11)),
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=11), restart=True),
        id="after three misses of the same process",
    ),
    pytest.param(
        Futility,
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=11)),
        evicted_in_vain(3, successor=100, last_after=timedelta(minutes=9)),
        id="after three misses that everybody knows of",
    ),
    pytest.param(
        Boosts,
        resized((50, None), annotations=BOOSTED, ready_since=None),
        resized((50, None), annotations=BOOSTED),
        id="a boosted pod resized before it is ready",
    ),
    pytest.param(
        Boosts,
        resized((None, 200 * MIB), annotations=BOOSTED, ready_since=None),
        resized((None, 200 * MIB), annotations=BOOSTED, ready_since=None, containers=(KILLED,)),
        id="a boosted pod that does not die gets memory",
    ),
    pytest.param(
        Boosts,
        resized((50, 200 * MIB), annotations=BOOSTED, ready_since=None, containers=(KILLED,)),
        resized((None, 200 * MIB), annotations=BOOSTED, ready_since=None, containers=(KILLED,)),
        id="a boosted pod loses CPU for the memory that it dies for",
    ),
    pytest.param(
        Boosts,
        resized(
            (50, None),
            annotations=BOOSTED,
            ready_since=None,
            unschedulable_since=START - timedelta(seconds=50),
        ),
        resized(
            (50, None),
            annotations=BOOSTED,
            ready_since=None,
            unschedulable_since=START - timedelta(seconds=60),
        ),
        id="a boosted pod resized that has lacked a node for a moment",
    ),
    pytest.param(
        Boosts,
        unboosted_later(has_node=True),
        unboosted_later(has_node=False),
        id="a boosted pod resized that has found a node",
    ),
    pytest.param(
        Boosts,
        unboosted_later(has_node=True),
        unboosted_later(has_node=True, fault="stale stores updater at 0:00:00"),
        id="a boosted pod resized that everybody knows to have a node",
    ),
    pytest.param(
        Boosts,
        resized_after_refusal("maximum cpu usage per Pod is 1"),
        resized_after_refusal("exceeded quota: team"),
        id="a boosted pod resized though no quota refused a pod",
    ),
    pytest.param(
        Boosts,
        evicted_at_once(1, of=2, annotations=BOOSTED),
        evicted_at_once(1, of=2),
        id="a boosted pod evicted",
    ),
    pytest.param(
        Boosts,
        boosted_for(timedelta(minutes=41)),
        boosted_for(timedelta(minutes=39)),
        id="a boost that never ends",
    ),
    pytest.param(
        Boosts,
        boosted_for(timedelta(hours=2)),
        boosted_for(timedelta(hours=2), resize=ResizeState.IN_PROGRESS),
        id="a boost that never ends though nobody works at it",
    ),
    pytest.param(
        Boosts,
        boosted_for(timedelta(hours=2)),
        boosted_for(timedelta(hours=2), fault="cut off updater"),
        id="a boost that never ends though nothing is broken",
    ),
    pytest.param(
        Converged,
        left_alone(),
        left_alone(recommendation=a_recommendation(target=USUAL, lower=USUAL, upper=USUAL)),
        id="pods outside their bounds",
    ),
    pytest.param(
        Converged, left_alone(), left_alone(minutes=30), id="pods outside their bounds for long"
    ),
    pytest.param(
        Converged, left_alone(), left_alone(mode=UpdateMode.INITIAL), id="in a mode that changes"
    ),
    pytest.param(
        Converged, left_alone(), left_alone(requirements=(ONLY_CPU,)), id="without requirements"
    ),
    pytest.param(
        Converged, left_alone(), left_alone(conditions=(WITHOUT_EFFECT,)), id="without a word"
    ),
    pytest.param(
        Converged,
        left_alone(replicas=1, min_replicas=1),
        left_alone(replicas=1),
        id="with replicas enough",
    ),
    pytest.param(Converged, left_alone_in("other"), left_alone_in("default"), id="without a quota"),
    pytest.param(
        Converged, left_alone_in("other"), left_alone_in("other", BUDGET), id="without a budget"
    ),
    pytest.param(
        Quiet,
        restless(targets=(100, 100, 120), quiet_after=2),
        restless(targets=(100, 120, 100), quiet_after=2),
        id="targets that never come to rest",
    ),
    pytest.param(
        Quiet,
        restless(targets=(100, 100), quiet_after=1, evictions=2),
        restless(targets=(100, 100), quiet_after=1, evictions=1),
        id="a second eviction for the same target",
    ),
    pytest.param(
        Quiet,
        restless(targets=(100, 100), quiet_after=1, evictions=2),
        restless(targets=(100, 100), quiet_after=1, evictions=2, falls=True),
        id="a second eviction though the target has not fallen",
    ),
    pytest.param(
        Quiet,
        restless_job(target=amounts(60, 60 * MIB)),
        restless_job(),
        id="more memory while a job is boosted",
    ),
    pytest.param(
        Quiet, restless_job(kind="StatefulSet"), restless_job(), id="a boost where no pods are new"
    ),
    pytest.param(
        Quiet, restless_job(minutes=4), restless_job(minutes=2), id="long after the boost of a job"
    ),
    pytest.param(
        Quiet, restless_start(needs=100), restless_start(), id="a start that has what it needs"
    ),
    pytest.param(
        Quiet,
        restless_start(work_cpu_seconds=0.0),
        restless_start(),
        id="a start that cannot end, without work",
    ),
    pytest.param(
        Quiet, restless_start(is_ready=True), restless_start(), id="a start that has ended"
    ),
    pytest.param(
        Quiet,
        restless_start(target=amounts(60, 60 * MIB)),
        restless_start(),
        id="more memory for a start that cannot end",
    ),
    pytest.param(
        Quiet,
        restless_start(minutes=4),
        restless_start(minutes=2),
        id="long after a resize let a start end",
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


def test_who_does_not_ask_for_the_status_lease_is_not_held_to_it() -> None:
    rules = Rules(status_lease=None)

    assert judge(AdmissionAlive, evicted_after_the_lease(None), rules) == []


def test_a_patch_that_did_not_apply_set_nothing() -> None:
    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(LARGER, policies=(POLICY,))
        pod = stage.put_pods(1)[0]
        patch = (Add("/spec/containers/7/resources/requests/cpu", "9"),)
        stage.tell(PodCreated(stage.world.now(), pod, pod, patch, webhook_answered=True))

    assert judge(RequestBounds, scene) == []


def test_a_boost_that_never_ends_is_told_once() -> None:
    async def scene(stage: Stage) -> None:
        await boosted_for(timedelta(hours=2))(stage)
        stage.inspector.inspect()
        stage.inspector.inspect()

    assert len(judge(Boosts, scene)) == 1
