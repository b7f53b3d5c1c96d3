"""What a caller is told when something is not done: a right, too many requests, no answer."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
from contract.stage import eventually, in_every_world
from contract.world import Link, World
from support.makers.records import NOW

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event, about_pod
from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import (
    ApiError,
    ForbiddenError,
    Right,
    TooManyRequestsError,
    UnreachableError,
)
from trimtab.cluster.ports import Cluster
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import Autoscaler, Condition
from trimtab.core.model.json_patch import Add
from trimtab.core.model.pods import Pod

Act = Callable[[World, Cluster], Awaitable[object]]

AUTOSCALING = "autoscaling.k8s.io"
LEASES = "coordination.k8s.io"
ANNOTATED = (Add("/metadata/annotations", {"vpaInPlaceUpdated": "true"}),)


async def evict(world: World, cluster: Cluster) -> None:
    await cluster.evict(Pod(world.namespace, "web", uid="1", resource_version="1"))


async def resize(world: World, cluster: Cluster) -> None:
    await cluster.resize(Pod(world.namespace, "web", uid="1"), ANNOTATED)


async def patch_pod(world: World, cluster: Cluster) -> None:
    await cluster.patch_pod(Pod(world.namespace, "web", uid="1"), ANNOTATED)


async def publish_status(world: World, cluster: Cluster) -> None:
    autoscaler = Autoscaler(world.namespace, "web", uid="1")
    await cluster.publish_status(autoscaler, (), (Condition("LowConfidence", "True"),))


async def save_checkpoint(world: World, cluster: Cluster) -> None:
    checkpoint = Checkpoint(world.namespace, "web", "app", AggregateCheckpoint())
    await cluster.save_checkpoint(checkpoint)


async def delete_checkpoint(world: World, cluster: Cluster) -> None:
    await cluster.delete_checkpoint(world.namespace, "web-app")


async def fetch_lease(world: World, cluster: Cluster) -> None:
    await cluster.fetch_lease(world.namespace, "vpa-updater")


async def create_lease(world: World, cluster: Cluster) -> None:
    await cluster.write_lease(Lease(world.namespace, "vpa-updater", holder="me"))


async def renew_lease(world: World, cluster: Cluster) -> None:
    lease = Lease(world.namespace, "vpa-updater", holder="me", resource_version="1")
    await cluster.write_lease(lease)


def missing_rights(link: Link) -> list[tuple[str, str, str]]:
    """Verb, resource and group of each right that the problems name."""
    errors = link.cluster.problems().values()
    rights = [error.right for error in errors if isinstance(error, ForbiddenError)]
    return [(right.verb, right.resource, right.group) for right in rights if right]


@pytest.mark.parametrize(
    ("act", "verb", "resource", "group"),
    [
        pytest.param(evict, "create", "pods/eviction", "", id="evict"),
        pytest.param(resize, "patch", "pods/resize", "", id="resize"),
        pytest.param(patch_pod, "patch", "pods", "", id="patch a pod"),
        pytest.param(
            publish_status,
            "patch",
            "verticalpodautoscalers/status",
            AUTOSCALING,
            id="publish a status",
        ),
        pytest.param(
            save_checkpoint,
            "create",
            "verticalpodautoscalercheckpoints",
            AUTOSCALING,
            id="save a checkpoint",
        ),
        pytest.param(
            delete_checkpoint,
            "delete",
            "verticalpodautoscalercheckpoints",
            AUTOSCALING,
            id="delete a checkpoint",
        ),
        pytest.param(fetch_lease, "get", "leases", LEASES, id="fetch a lease"),
        pytest.param(create_lease, "create", "leases", LEASES, id="create a lease"),
        pytest.param(renew_lease, "update", "leases", LEASES, id="renew a lease"),
    ],
)
@in_every_world
async def test_f43_an_act_that_lacks_a_right_names_it_and_it_stays_a_problem(
    world: World, act: Act, verb: str, resource: str, group: str
) -> None:
    async with world.joined(without=Right(verb, resource, group)) as link:
        with pytest.raises(ForbiddenError) as caught:
            await act(world, link.cluster)

        right = caught.value.right
        assert right == Right(verb, resource, group, world.namespace)
        assert missing_rights(link) == [(verb, resource, group)]


@in_every_world
async def test_f43_events_that_may_not_be_written_are_a_problem_too(world: World) -> None:
    event = Event(about_pod(Pod(world.namespace, "web")), "Some", "Text.", NOW)
    async with world.joined(without=Right("create", "events")) as link:
        await link.cluster.emit(event)

        assert missing_rights(link) == [("create", "events", "")]


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    ("resource", "group"),
    [
        pytest.param("pods", "", id="pods"),
        pytest.param("limitranges", "", id="limit ranges"),
        pytest.param("events", "", id="events"),
        pytest.param("verticalpodautoscalers", AUTOSCALING, id="autoscalers"),
        pytest.param("verticalpodautoscalercheckpoints", AUTOSCALING, id="checkpoints"),
        pytest.param("cronjobs", "batch", id="a kind of workload"),
    ],
)
@in_every_world
async def test_f43_a_view_that_lacks_a_right_names_it_and_the_others_are_filled(
    world: World, verb: str, resource: str, group: str
) -> None:
    await world.create_pod("web", is_placed=False)
    async with world.joined(without=Right(verb, resource, group)) as link:
        await eventually(world, lambda: missing_rights(link) == [(verb, resource, group)])
        is_seen = verb == "watch" or resource != "pods"
        await eventually(world, lambda: len(list(link.cluster.pods)) == is_seen)
        await eventually(world, lambda: (link.cluster.age() is None) is (verb == "list"))


@pytest.mark.parametrize("verb", ["list", "watch"])
@in_every_world
async def test_f43_without_the_right_to_see_nodes_everything_else_goes_on(
    world: World, verb: str
) -> None:
    await world.create_pod("web", is_placed=False)
    async with world.joined(without=Right(verb, "nodes")) as link:
        await eventually(world, lambda: list(link.cluster.pods))
        await eventually(world, lambda: link.cluster.age() is not None)

        assert (link.cluster.nodes.age() is None) is (verb == "list")
        assert link.cluster.problems() == {}


@in_every_world
async def test_writes_that_the_server_fails_at_are_errors_of_no_special_class(
    world: World,
) -> None:
    await world.create_pod("web")
    async with world.joined() as link, link.failing():
        (pod,) = link.cluster.pods
        with pytest.raises(ApiError) as patching:
            await link.cluster.patch_pod(pod, ANNOTATED)
        with pytest.raises(ApiError) as saving:
            await save_checkpoint(world, link.cluster)
        with pytest.raises(ApiError) as leasing:
            await create_lease(world, link.cluster)

        for caught in (patching, saving, leasing):
            assert type(caught.value) is ApiError
            assert caught.value.status.code == HTTPStatus.INTERNAL_SERVER_ERROR


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        pytest.param("busy", TooManyRequestsError, id="too many requests"),
        pytest.param("silent", UnreachableError, id="no answer"),
    ],
)
@in_every_world
async def test_acts_and_readings_that_the_server_has_no_time_for_say_so(
    world: World, how: str, kind: type[ApiError]
) -> None:
    await world.create_pod("web")
    async with world.joined() as link:
        async with link.busy() if how == "busy" else link.silent():
            for act in (evict, patch_pod, save_checkpoint, fetch_lease, create_lease):
                with pytest.raises(ApiError) as caught:
                    await act(world, link.cluster)
                assert type(caught.value) is kind
            with pytest.raises(kind):
                await link.usage.fetch()
        # Afterwards everything is as it was.
        await eventually(world, lambda: can_fetch_lease(world, link))
        (pod,) = link.cluster.pods
        await link.cluster.patch_pod(pod, ANNOTATED)


async def can_fetch_lease(world: World, link: Link) -> bool:
    try:
        await fetch_lease(world, link.cluster)
    except ApiError:
        return False
    return True
