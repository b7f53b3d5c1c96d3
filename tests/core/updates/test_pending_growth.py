"""Growth that the kubelet has put off: it keeps nothing for ever that would fit."""

from dataclasses import replace

import pytest
from msgspec import structs
from support.makers.plans import planned, snapshot_of, told
from support.makers.records import (
    MIB,
    NOW,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Resize
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import Allocation, Container, Pod, ResizeState, Termination
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.updates.pending_growth import fitting_part
from trimtab.core.updates.resize_or_evict import DeniedAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
HAS, ASKED = amounts(1000, 100 * MIB), amounts(8000, 100 * MIB)
LESS, MORE_MEMORY = amounts(2000, 100 * MIB), amounts(8000, 500 * MIB)
MODES = [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY]


def a_waiting_pod(*, is_killed: bool = False, **fields: object) -> Pod:
    """Return a pod with 1 CPU that waits for 8, on a node that is full."""
    container = Container(
        "app",
        spec=Allocation(ASKED),
        status=Allocation(HAS),
        last_termination=KILLED if is_killed else None,
    )
    usual: dict[str, object] = {"resize": ResizeState.DEFERRED, "node_name": "one"}
    return a_pod(container, **(usual | fields))  # type: ignore[arg-type]


def a_snapshot(
    target: Resources,
    pod: Pod,
    mode: UpdateMode,
    *,
    minutes_ago: float = 60,
    others: int = 0,
    resize: ResizeMemory | None = None,
) -> Snapshot:
    """Return a snapshot of the pod on a node of 9 CPUs of which other pods take some."""
    autoscaler = an_autoscaler(a_recommendation(target=target, lower=target), mode=mode)
    since = NOW - minutes(minutes_ago)
    memory = replace(resize or ResizeMemory(), resize_since=since)
    use = NodeUse({"one": amounts(9000, 9000 * MIB)}, {"one": amounts(8000 + others, 200 * MIB)})
    return snapshot_of(
        [pod],
        autoscaler,
        pod_memory={(pod.uid, autoscaler.identity): PodMemory(memory)},
        node_use=use,
    )


def asked_for(snapshot: Snapshot) -> Resources | None:
    (outcome,) = planned(snapshot)
    return outcome.wanted["app"].requests if isinstance(outcome, Resize) else None


@pytest.mark.parametrize("mode", MODES)
def test_less_than_waits_is_asked_for_anew(mode: UpdateMode) -> None:
    asked = asked_for(a_snapshot(LESS, a_waiting_pod(), mode))

    assert asked is not None
    assert asked[Resource.CPU] == 2000


@pytest.mark.parametrize("mode", [*MODES, UpdateMode.RECREATE])
@pytest.mark.parametrize("state", [ResizeState.DEFERRED, ResizeState.INFEASIBLE])
@pytest.mark.parametrize("others", [0, 8000], ids=["there is room for CPU", "there is none"])
def test_memory_that_ends_oom_kills_waits_for_no_cpu(
    mode: UpdateMode, state: ResizeState, others: int
) -> None:
    pod = a_waiting_pod(is_killed=True, resize=state)
    snapshot = a_snapshot(MORE_MEMORY, pod, mode, others=others, minutes_ago=1)

    assert asked_for(snapshot) == amounts(1000, 500 * MIB)


@pytest.mark.parametrize("mode", MODES)
def test_memory_with_room_waits_for_no_cpu_without(mode: UpdateMode) -> None:
    snapshot = a_snapshot(MORE_MEMORY, a_waiting_pod(), mode, others=8000)

    assert asked_for(snapshot) == amounts(1000, 500 * MIB)


@pytest.mark.parametrize("state", [ResizeState.DEFERRED, ResizeState.INFEASIBLE])
def test_a_rescue_put_off_keeps_no_pod_of_several_from_eviction(state: ResizeState) -> None:
    # Not even memory alone has room on the node.
    pod = a_waiting_pod(is_killed=True, resize=state)
    full = NodeUse({"one": amounts(9000, 200 * MIB)}, {"one": amounts(9000, 200 * MIB)})
    one = a_snapshot(MORE_MEMORY, pod, UpdateMode.RECREATE)
    autoscaler = one.autoscalers[0].autoscaler
    several = [structs.replace(pod, name=f"web-{index}", uid=f"uid-{index}") for index in range(2)]
    outcomes = planned(snapshot_of(several, autoscaler, node_use=full))

    assert told(planned(replace(one, node_use=full))) == ["BelowMinReplicas"]
    assert told(outcomes)[0] == ("ResizeDeferred" if state is ResizeState.DEFERRED else "Evict")
    protected = PodMemory(ResizeMemory(resize_since=NOW - minutes(6)), eviction=Retry(1))
    memory = {(each.uid, autoscaler.identity): protected for each in several}
    later = snapshot_of(several, autoscaler, node_use=full, pod_memory=memory)
    assert told(planned(later))[0] == "Evict"


def denied(target: Resources) -> ResizeMemory:
    return ResizeMemory(denied=DeniedAttempt({"app": target}, NOW - minutes(1)))


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(a_snapshot(ASKED, a_waiting_pod(), MODES[0]), id="the same is wanted"),
        pytest.param(
            a_snapshot(amounts(9000, 100 * MIB), a_waiting_pod(), MODES[0]), id="more of the same"
        ),
        pytest.param(
            a_snapshot(amounts(7900, 100 * MIB), a_waiting_pod(), MODES[0]), id="hardly less"
        ),
        pytest.param(
            a_snapshot(LESS, a_waiting_pod(), MODES[0], minutes_ago=1), id="it has just begun"
        ),
        pytest.param(
            a_snapshot(LESS, a_waiting_pod(), MODES[0], resize=denied(LESS)),
            id="the API server refused it",
        ),
        pytest.param(
            a_snapshot(LESS, a_waiting_pod(resize=ResizeState.IN_PROGRESS), MODES[0]),
            id="the kubelet is at work",
        ),
    ],
)
def test_a_resize_that_waits_is_not_replaced_for_nothing(snapshot: Snapshot) -> None:
    assert told(planned(snapshot))[0] in {"ResizeDeferred", "ResizeInProgress"}


def test_what_a_container_has_no_limit_of_gets_none() -> None:
    pod, wanted = a_waiting_pod(), {"app": Allocation(MORE_MEMORY, MORE_MEMORY)}
    part = fitting_part(pod, wanted, {Resource.CPU}, least=0.1, is_for_memory=False)

    memory = {Resource.MEMORY: 500 * MIB}
    assert part == {"app": Allocation({**memory, Resource.CPU: 1000}, memory)}
