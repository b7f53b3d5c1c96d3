"""Room that DaemonSets take on each node."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.nodes import Placement
from trimtab.core.model.pods import Container, Pod, WorkloadName
from trimtab.core.model.resources import Resources
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing.daemon_sets import list_daemons
from trimtab.core.sizing.node_capacity import Daemon, DaemonSize

AGENT = WorkloadName("default", "DaemonSet", "agent")
HAS = a_container(requests=amounts(100, 100 * MIB))
POOL = Placement((("pool", "small"),))


def agent(*containers: Container, **fields: object) -> Workload:
    template = a_pod(*containers, name="", uid="", owner=None, **fields)  # type: ignore[arg-type]
    return Workload(AGENT, template=template)


def requests(
    workload: Workload,
    *autoscalers: Autoscaler,
    items: Sequence[LimitRangeItem] = (),
) -> Resources:
    (daemon,) = list_daemons([workload], lambda _: autoscalers, lambda _: items)
    return daemon.requests


def sized(target: Resources, mode: UpdateMode = UpdateMode.RECREATE) -> Autoscaler:
    return an_autoscaler(a_recommendation(target=target), mode=mode)


@pytest.mark.parametrize(
    ("workload", "autoscalers", "expected"),
    [
        pytest.param(agent(HAS), (), amounts(100, 100 * MIB), id="what the template requests"),
        pytest.param(
            agent(a_container(limits=amounts(300))), (), amounts(300, 0), id="a limit alone"
        ),
        pytest.param(
            agent(HAS, init_requests=amounts(900, 0)),
            (),
            amounts(900, 100 * MIB),
            id="an init container",
        ),
        pytest.param(
            agent(HAS),
            (sized(amounts(800, 50 * MIB)),),
            amounts(800, 100 * MIB),
            id="the larger of template and recommendation",
        ),
        pytest.param(
            agent(HAS),
            (sized(amounts(800), mode=UpdateMode.OFF),),
            amounts(100, 100 * MIB),
            id="an autoscaler that is off",
        ),
        pytest.param(
            agent(HAS),
            (sized(amounts(300)), sized(amounts(700))),
            amounts(700, 100 * MIB),
            id="the largest of several autoscalers",
        ),
    ],
)
def test_a_daemon_takes_of_each_node(
    workload: Workload, autoscalers: tuple[Autoscaler, ...], expected: Resources
) -> None:
    assert requests(workload, *autoscalers) == expected


def test_limit_ranges_cap_what_daemons_get() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(500))
    bound = agent(structs.replace(HAS, spec=structs.replace(HAS.spec, limits=amounts(100))))

    assert requests(bound, sized(amounts(800)), items=[item]) == amounts(500, 100 * MIB)


def test_workloads_without_a_template_are_no_daemons() -> None:
    template = Pod("default", "", placement=POOL)
    found = list_daemons(
        [Workload(WorkloadName("default", "DaemonSet", "new")), Workload(AGENT, template=template)],
        lambda _: (),
        lambda _: (),
    )

    assert found == (Daemon(AGENT, amounts(0, 0), POOL, share=0.1),)


@pytest.mark.parametrize(
    ("wanted", "ready", "updated", "share"),
    [
        pytest.param(10, 10, 10, 1, id="all pods are ready"),
        pytest.param(10, 11, 11, 1, id="pods on nodes that just went"),
        pytest.param(10, 10, 9, 0.5, id="a rollout goes on"),
        pytest.param(10, 10, 0, 0.5, id="a template that no pod has"),
        pytest.param(10, 9, 10, 0.5, id="a new node has no pod yet"),
        pytest.param(6, 5, 5, 0.5, id="a rollout in a small cluster"),
        pytest.param(10, 5, 10, 0.5, id="pods are pending on half of the nodes"),
        pytest.param(10, 4, 10, 0.1, id="pods are pending on most nodes"),
        pytest.param(10, 0, 10, 0.1, id="pods are pending everywhere"),
        pytest.param(0, 0, 0, 0.1, id="it goes to no node"),
        pytest.param(None, None, None, 0.1, id="it was just created"),
    ],
)
def test_a_daemon_set_is_believed_as_far_as_its_pods_run(
    wanted: int | None, ready: int | None, updated: int | None, share: float
) -> None:
    workload = replace(agent(HAS), replicas=wanted, ready=ready, updated=updated)
    (daemon,) = list_daemons([workload], lambda _: (), lambda _: ())

    assert daemon == Daemon(AGENT, amounts(100, 100 * MIB), share=share)


@pytest.mark.parametrize(("ready", "shares"), [(10, (0.5, 1)), (5, (0.5, 0.5)), (0, (0.1, 0.1))])
def test_of_a_daemon_set_under_an_autoscaler_two_sizes_are_possible(
    ready: int, shares: tuple[float, float]
) -> None:
    workload = replace(agent(HAS), replicas=10, ready=ready, updated=10)
    autoscaler = sized(amounts(800, 50 * MIB))
    (daemon,) = list_daemons([workload], lambda _: (autoscaler,), lambda _: ())

    lesser = DaemonSize(amounts(100, 50 * MIB), shares[1])
    assert daemon == Daemon(AGENT, amounts(800, 100 * MIB), None, shares[0], lesser)
