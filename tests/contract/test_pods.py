"""What is done to pods: eviction, resize in place, patches of metadata."""

from collections.abc import Sequence

import pytest
from contract.stage import eventually, in_every_world
from contract.world import Link, World
from msgspec import structs
from support.makers.records import MIB, amounts

from trimtab.cluster.errors import BudgetError, ConflictError, InvalidError, NotFoundError
from trimtab.core.model.json_patch import Add, Remove
from trimtab.core.model.pods import Pod, PodPhase, ResizeState

MORE_CPU = (Add("/spec/containers/0/resources/requests/cpu", "250m"),)
ANNOTATED = (Add("/metadata/annotations", {"vpaInPlaceUpdated": "true"}),)


def pods_of(link: Link, app: str) -> Sequence[Pod]:
    return [pod for pod in link.cluster.pods if pod.labels.get("app") == app]


def see(link: Link, app: str) -> Pod:
    """The one pod of that label as the view shows it."""
    (pod,) = pods_of(link, app)
    return pod


def are_ready(pods: Sequence[Pod], count: int) -> bool:
    ready = [pod for pod in pods if pod.ready_since is not None and not pod.is_deleting]
    return len(ready) == len(pods) == count


async def listed(world: World, name: str) -> Pod | None:
    return next((pod for pod in await world.list_pods() if pod.name == name), None)


@in_every_world
async def test_an_evicted_pod_goes_and_its_owner_makes_another(world: World) -> None:
    await world.create_workload("Deployment", "web", replicas=2)
    async with world.joined() as link:
        evicted, kept = pods_of(link, "web")
        await link.cluster.evict(evicted)
        await eventually(
            world, lambda: link.cluster.pods.find(world.namespace, evicted.name) is None
        )
        await eventually(world, lambda: are_ready(pods_of(link, "web"), 2))

        uids = {pod.uid for pod in pods_of(link, "web")}
        assert kept.uid in uids
        assert evicted.uid not in uids


@in_every_world
async def test_a_pod_of_a_stateful_set_comes_back_under_its_name_and_is_another(
    world: World,
) -> None:
    await world.create_workload("StatefulSet", "db", replicas=1)
    async with world.joined() as link:
        evicted = see(link, "db")
        await link.cluster.evict(evicted)
        await eventually(
            world,
            lambda: are_ready(pods_of(link, "db"), 1) and see(link, "db").uid != evicted.uid,
        )
        with pytest.raises(ConflictError):
            await link.cluster.evict(evicted)
        with pytest.raises(ConflictError):
            await link.cluster.resize(evicted, MORE_CPU)

        assert see(link, "db").name == evicted.name == "db-0"


@in_every_world
async def test_a_pod_that_changed_since_it_was_seen_is_not_evicted(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        seen = see(link, "web")
        await world.label_pod("web", "role", "leader")
        with pytest.raises(ConflictError):
            await link.cluster.evict(seen)
        pod = await listed(world, "web")

        assert pod is not None
        assert not pod.is_deleting


@pytest.mark.parametrize("act", ["evict", "resize", "patch_pod"])
@in_every_world
async def test_nothing_is_done_to_another_pod_of_the_same_name(world: World, act: str) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        another = structs.replace(see(link, "web"), uid="another")
        before = await listed(world, "web")
        with pytest.raises(ConflictError):
            await do(link, act, another)

        assert await listed(world, "web") == before


@pytest.mark.parametrize("act", ["evict", "resize", "patch_pod"])
@in_every_world
async def test_what_is_done_to_a_pod_that_is_gone_finds_none(world: World, act: str) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        seen = see(link, "web")
        await world.delete_pod("web")
        with pytest.raises(NotFoundError):
            await do(link, act, seen)


async def do(link: Link, act: str, pod: Pod) -> None:
    match act:
        case "evict":
            await link.cluster.evict(pod)
        case "resize":
            await link.cluster.resize(pod, MORE_CPU)
        case _:
            await link.cluster.patch_pod(pod, ANNOTATED)


@in_every_world
async def test_a_disruption_budget_that_is_spent_stops_an_eviction(world: World) -> None:
    await world.create_workload("Deployment", "web", replicas=2)
    await world.create_disruption_budget("web", min_available=2)
    async with world.joined() as link:
        pod, _ = pods_of(link, "web")
        with pytest.raises(BudgetError):
            await link.cluster.evict(pod)
        after = await listed(world, pod.name)

        assert after is not None
        assert not after.is_deleting


@in_every_world
async def test_a_trial_is_refused_like_an_eviction_and_evicts_nobody(world: World) -> None:
    await world.create_workload("Deployment", "web", replicas=2)
    async with world.joined() as link:
        pod, _ = pods_of(link, "web")
        await link.cluster.try_eviction(pod)
        await link.cluster.try_eviction(pod)
        await world.create_disruption_budget("web", min_available=2)
        with pytest.raises(BudgetError):
            await link.cluster.try_eviction(pod)
        after = await listed(world, pod.name)

        assert after is not None
        assert not after.is_deleting


@in_every_world
async def test_a_disruption_budget_opens_again_when_the_successor_is_ready(world: World) -> None:
    await world.create_workload("Deployment", "web", replicas=2)
    await world.create_disruption_budget("web", min_available=1)
    async with world.joined() as link:
        first, second = pods_of(link, "web")
        await link.cluster.evict(first)
        await eventually(world, lambda: can_evict(world, link, second.name))
        await eventually(world, lambda: is_gone(link, second))
        await eventually(world, lambda: are_ready(pods_of(link, "web"), 2))

        assert {pod.name for pod in pods_of(link, "web")}.isdisjoint({first.name, second.name})


def is_gone(link: Link, pod: Pod) -> bool:
    return link.cluster.pods.find(pod.namespace, pod.name) is None


async def can_evict(world: World, link: Link, name: str) -> bool:
    pod = link.cluster.pods.find(world.namespace, name)
    assert pod is not None
    try:
        await link.cluster.evict(pod)
    except (BudgetError, ConflictError):
        return False
    return True


@in_every_world
async def test_a_resize_in_place_changes_a_running_pod(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        before = see(link, "web")
        await link.cluster.resize(before, MORE_CPU)
        wanted = amounts(250, 100 * MIB)
        await eventually(world, lambda: see(link, "web").containers[0].current.requests == wanted)
        after = see(link, "web")

        assert before.containers[0].current.requests == amounts(100, 100 * MIB)
        assert after.containers[0].spec.requests == wanted
        assert after.resize is None
        assert (before.generation, after.generation) == (1, 2)
        assert after.uid == before.uid
        assert after.phase is PodPhase.RUNNING


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(ResizeState.DEFERRED, id="put off"),
        pytest.param(ResizeState.INFEASIBLE, id="not possible on this node"),
        pytest.param(ResizeState.IN_PROGRESS, id="under way"),
        pytest.param(ResizeState.ERROR, id="failing"),
    ],
)
@in_every_world
async def test_a_resize_that_its_node_does_not_finish_shows_how_far_it_got(
    world: World, outcome: ResizeState
) -> None:
    await world.create_pod("web", resize=outcome)
    async with world.joined() as link:
        await link.cluster.resize(see(link, "web"), MORE_CPU)
        await eventually(world, lambda: see(link, "web").resize is outcome)
        (container,) = see(link, "web").containers

        assert container.spec.requests == amounts(250, 100 * MIB)
        assert container.current.requests == amounts(100, 100 * MIB)


@in_every_world
async def test_a_resize_to_what_no_pod_may_have_is_invalid_and_changes_nothing(
    world: World,
) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        less_than_nothing = (Add("/spec/containers/0/resources/requests/cpu", "-1"),)
        before = await listed(world, "web")
        with pytest.raises(InvalidError) as caught:
            await link.cluster.resize(see(link, "web"), less_than_nothing)

        assert [cause.field for cause in caught.value.causes] == [
            "spec.containers[0].resources.requests[cpu]"
        ]
        assert await listed(world, "web") == before


@in_every_world
async def test_a_resize_never_overwrites_a_size_that_was_set_since(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        seen = see(link, "web")
        by_a_person = (Add("/spec/containers/0/resources/requests/cpu", "300m"),)
        await link.cluster.resize(seen, by_a_person)
        with pytest.raises(ConflictError):
            await link.cluster.resize(seen, MORE_CPU)
        pod = await listed(world, "web")

        assert pod is not None
        assert pod.containers[0].spec.requests == amounts(300, 100 * MIB)


@in_every_world
async def test_a_label_that_was_set_since_is_no_obstacle_to_a_resize(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        seen = see(link, "web")
        await world.label_pod("web", "role", "leader")
        await link.cluster.resize(seen, MORE_CPU)
        pod = await listed(world, "web")

        assert pod is not None
        assert pod.containers[0].spec.requests == amounts(250, 100 * MIB)


@in_every_world
async def test_an_annotation_is_added_to_the_pod_that_was_seen(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        await link.cluster.patch_pod(see(link, "web"), ANNOTATED)
        await eventually(world, lambda: see(link, "web").annotations)

        assert see(link, "web").annotations == {"vpaInPlaceUpdated": "true"}


@in_every_world
async def test_a_patch_that_does_not_apply_is_a_conflict(world: World) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        with pytest.raises(ConflictError):
            await link.cluster.patch_pod(
                see(link, "web"), (Remove("/metadata/annotations/vpaUpdates"),)
            )
