"""The real components, unchanged, as copies that run in a simulation."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from trimtab.admission.admit import Admission
from trimtab.admission.owner_cache import NotYetError
from trimtab.admission.server.limits import USUAL_LIMITS
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.webhook.status_lease import StatusLease
from trimtab.api.admission.new_pods import NewPod
from trimtab.cluster.live.leader_election import ElectionSettings, Elector
from trimtab.cluster.ports import PressureSource
from trimtab.core.changes.change import Thresholds
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.estimation import CostSettings, Estimator, PressureSettings
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import RecommenderSettings
from trimtab.roles.controller import RoleKeeper
from trimtab.roles.settings import RolesSettings
from trimtab.simulation.api_server import manifests
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.checks.base import Rules
from trimtab.simulation.nodes.pressure import SimulatedPressure
from trimtab.simulation.processes import Component, ProcessSurroundings
from trimtab.simulation.simulation import Simulation
from trimtab.updater.controller import Updater
from trimtab.updater.settings import UpdaterSettings

DAY: Final = timedelta(minutes=30)
"""A day of the recommender's history: so histories age out and settle within hours."""
USAGE: Final = UsageSettings(cpu_half_life=DAY, memory_half_life=DAY, memory_interval=DAY)


@dataclass(frozen=True, slots=True)
class Stack:
    """The components of a run, and the function that builds them for a simulation."""

    names: tuple[str, ...]
    build: Callable[[Simulation], Mapping[str, Component]]
    rules: Rules = field(default_factory=lambda: Rules(usage=USAGE))
    """The settings by which checkers judge them."""


_COST: Final = CostSettings(
    oom_price_gib_hours=CostSettings().oom_price_gib_hours * (DAY / timedelta(days=1)),
    remembered=28 * DAY,
    least_age=1.25 * DAY,
    peak_lifetime=1.5 * DAY,
    lower_gap=1.5 * DAY,
    tried_gap=DAY / 12,
    warm_up=DAY / 4,
    cpu_half_life=2 * DAY,
    cpu_settling=timedelta(minutes=2),
    cpu_interval=timedelta(minutes=5),
    short_run=timedelta(minutes=5),
    longest_gap=timedelta(minutes=10),
    start_settling=timedelta(minutes=1),
    longest_start=timedelta(minutes=5),
    pressure=PressureSettings(
        lifetime=timedelta(minutes=2),
        confirmed_run=timedelta(minutes=2),
        memory_run=timedelta(minutes=1),
        hold_off=timedelta(minutes=3),
    ),
)
"""The cost-based estimator in such days."""

_ANY_NUMBER: Final = 1_000_000
_USUAL: Final = RecommendationSettings()
_RECOMMENDER: Final = RecommenderSettings(
    usage=USAGE,
    recommendations=replace(
        _USUAL,
        cpu=replace(_USUAL.cpu, confidence_interval=DAY),
        memory=replace(_USUAL.memory, confidence_interval=DAY),
        cost=_COST,
    ),
)
_UPDATER: Final = UpdaterSettings(
    plan=replace(UpdaterSettings().plan, thresholds=Thresholds(lifetime=4 * DAY))
)
_UNGUARDED: Final = UpdaterSettings(
    plan=replace(
        _UPDATER.plan,
        cool_down=timedelta(),
        max_misses=_ANY_NUMBER,
        degraded_after=None,
        max_unproven=None,
        surge_margin=_ANY_NUMBER,
        max_boost_duration=None,
    ),
    pace=PaceSettings(per_second=0, slow_start=timedelta()),
    caps_to_nodes=False,
    hpa_conflict=HpaConflict.IGNORE,
    max_view_age=timedelta(days=1),
)
"""Guards that the original updater lacks are off; all else is on."""
_ADMISSION: Final = AdmissionSettings()
_FORGETFUL: Final = replace(_RECOMMENDER, usage=replace(USAGE, keeps_oom_ledger=False))
_ROLES: Final = RolesSettings(interval=timedelta(seconds=5))
_PROBE: Final = Pod(
    "kube-system",
    "trimtab-probe",
    containers=(Container("probe", spec=Allocation({Resource.CPU: 1})),),
)
"""A pod that is never created: a correct patch of it shows that the webhook works."""
_PROBE_PATCH: Final[Patch] = (Add("/spec/containers/0/resources/requests/cpu", "2m"),)


async def run_recommender(
    surroundings: ProcessSurroundings,
    settings: RecommenderSettings = _RECOMMENDER,
    pressure: PressureSource | None = None,
) -> None:
    """Run the recommender while it leads."""
    recommender = Recommender(
        surroundings.cluster,
        surroundings.usage,
        settings=settings,
        clock=surroundings.clock,
    )
    if pressure is not None:
        recommender.read_pressure(pressure)
    elector = _elector(surroundings, "vpa-recommender-lease")
    await elector.run(recommender.run)


async def run_updater(
    surroundings: ProcessSurroundings, settings: UpdaterSettings = _UPDATER
) -> None:
    """Run the updater while it leads."""
    elector = _elector(surroundings, "vpa-updater")
    updater = Updater(
        surroundings.cluster,
        settings=settings,
        clock=surroundings.clock,
        may_act=elector.leads,
    )
    await elector.run(updater.run)


async def run_roles(surroundings: ProcessSurroundings) -> None:
    """Run the role keeper while it leads."""
    elector = _elector(surroundings, "trimtab-roles")
    keeper = RoleKeeper(
        surroundings.cluster,
        settings=_ROLES,
        clock=surroundings.clock,
        elapsed=surroundings.clock.elapsed,
        may_act=elector.leads,
    )
    await elector.run(keeper.run)


async def run_admission(
    admitting: Admitting,
    surroundings: ProcessSurroundings,
    settings: AdmissionSettings = _ADMISSION,
) -> None:
    """Run the admission controller, whose webhook is called for every new pod."""
    line, clock = surroundings.line, surroundings.clock
    admission = Admission(
        surroundings.cluster, settings, timer=lambda: clock.elapsed().total_seconds()
    )

    async def webhook(pod: Pod) -> Patch | None:
        await surroundings.clock.sleep(line.latency)
        if line.is_dead or line.is_cut or line.is_silent:
            return None
        if pod.name == _PROBE.name:
            return _PROBE_PATCH
        with suppress(NotYetError):
            return await _outside_of_tasks(partial(_admit, admission, pod, may_wait=True))
        await surroundings.clock.sleep(USUAL_LIMITS.patience)
        return await _outside_of_tasks(partial(_admit, admission, pod))

    async def passes_test() -> bool:
        is_prepared = admission.prepare()
        probe = await admitting.try_out(_PROBE)
        return is_prepared and probe.containers[0].spec.requests == {Resource.CPU: 2}

    lease = StatusLease(
        surroundings.cluster,
        settings,
        holder=line.actor,
        clock=surroundings.clock,
        passes_test=passes_test,
    )
    await surroundings.cluster.synced()
    admitting.webhooks.append(webhook)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(admission.run())
            group.create_task(lease.run())
    finally:
        admitting.webhooks.remove(webhook)


def _admit(admission: Admission, pod: Pod, *, may_wait: bool = False) -> Patch:
    if any(container.status is not None for container in pod.containers):
        # The decoder must ignore the status of a manifest, so it takes part here.
        new = NewPod(manifests.encode_manifest(pod), pod.namespace)
        return admission.size(new, may_wait=may_wait).patch
    return admission.admit(pod, may_wait=may_wait)


def _outside_of_tasks(act: Callable[[], Patch]) -> asyncio.Future[Patch]:
    """Answer as the real server does, in a callback of the loop and in no task."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Patch] = loop.create_future()

    def run() -> None:
        if answer.cancelled():
            return
        try:
            answer.set_result(act())
        except Exception as error:  # noqa: BLE001 - the caller gets it, whatever it is.
            answer.set_exception(error)

    loop.call_soon(run)
    return answer


def _elector(surroundings: ProcessSurroundings, lease: str) -> Elector:
    settings = ElectionSettings(
        "kube-system",
        lease,
        surroundings.line.actor,
        # Five times the original's spans: otherwise most requests would be renewals.
        lease_duration=timedelta(seconds=75),
        renew_deadline=timedelta(seconds=50),
        retry_period=timedelta(seconds=10),
    )
    return Elector(
        surroundings.cluster,
        settings,
        clock=surroundings.clock,
        elapsed=surroundings.clock.elapsed,
    )


def with_estimator(estimator: Estimator) -> Stack:
    """Return the real components, with a recommender that uses an estimator."""
    recommendations = replace(_RECOMMENDER.recommendations, estimator=estimator)
    return _stack_of(replace(_RECOMMENDER, recommendations=recommendations), _UPDATER)


def with_pressure(estimator: Estimator) -> Stack:
    """Return the same components, with a recommender that reads signals from the kubelet."""
    plain = with_estimator(estimator)
    recommendations = replace(_RECOMMENDER.recommendations, estimator=estimator)
    settings = replace(_RECOMMENDER, recommendations=recommendations)

    def build(simulation: Simulation) -> Mapping[str, Component]:
        source = SimulatedPressure(simulation.kubelet)
        recommend = partial(run_recommender, settings=settings, pressure=source)
        return {**plain.build(simulation), "recommender": recommend}

    return replace(plain, build=build)


def _stack_of(recommender: RecommenderSettings, updater: UpdaterSettings) -> Stack:
    def build(simulation: Simulation) -> Mapping[str, Component]:
        async def update(surroundings: ProcessSurroundings) -> None:
            plan = replace(updater.plan, gates=simulation.gates_of("updater"))
            await run_updater(surroundings, replace(updater, plan=plan))

        async def admit(surroundings: ProcessSurroundings) -> None:
            settings = replace(_ADMISSION, gates=simulation.gates_of("admission"))
            await run_admission(simulation.admitting, surroundings, settings)

        return {
            "recommender": partial(run_recommender, settings=recommender),
            "updater": update,
            "admission": admit,
        }

    estimations = recommender.recommendations
    rules = Rules(usage=USAGE, estimator=estimations.estimator, cost=estimations.cost)
    return Stack(("recommender", "updater", "admission"), build, rules)


REAL: Final = _stack_of(_RECOMMENDER, _UPDATER)
"""The components that a user would install."""
ORIGINAL_RULES: Final = _stack_of(_FORGETFUL, _UNGUARDED)
"""The same components without our guards, as far as settings allow."""
