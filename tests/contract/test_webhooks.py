"""What a webhook keeps in the cluster, and the pods that it only tries."""

from dataclasses import replace

import pytest
from contract.stage import in_every_world
from contract.world import World

from trimtab.api.kinds.secrets import Secret
from trimtab.cluster.errors import ConflictError
from trimtab.core.webhook.registration import (
    MAIN,
    Registration,
    RegistrationSettings,
    plan_registration,
    with_bundle,
)


def wanted(world: World) -> Registration:
    """A registration that nobody is ever asked by."""
    settings = RegistrationSettings(
        "https://127.0.0.1:1", name=world.namespace, selected_namespace="nowhere"
    )
    return plan_registration(None, settings, "")


@in_every_world
async def test_of_two_who_change_the_same_version_of_a_secret_one_gets_a_conflict(
    world: World,
) -> None:
    async with world.joined() as one, world.joined() as two:
        secret = Secret(world.namespace, "keys", {"a": b"\x00", "b": b"1"})
        before = await one.webhooks.fetch_secret(world.namespace, "keys")
        created = await one.webhooks.write_secret(secret)
        with pytest.raises(ConflictError):
            await two.webhooks.write_secret(secret)
        changed = await one.webhooks.write_secret(replace(created, data={"b": b"2"}))
        with pytest.raises(ConflictError):
            await two.webhooks.write_secret(replace(created, data={"b": b"3"}))
        after = await two.webhooks.fetch_secret(world.namespace, "keys")

        assert before is None
        assert created == replace(secret, resource_version=created.resource_version)
        assert after == changed
        assert changed.data == {"a": b"\x00", "b": b"2"}


@in_every_world
async def test_of_two_who_change_the_same_version_of_a_registration_one_gets_a_conflict(
    world: World,
) -> None:
    name = world.namespace
    async with world.joined() as one, world.joined() as two:
        before = await one.webhooks.fetch_registration(name)
        await one.webhooks.write_registration(None, wanted(world))
        with pytest.raises(ConflictError):
            await two.webhooks.write_registration(None, wanted(world))
        created = await two.webhooks.fetch_registration(name)
        assert created
        await one.webhooks.write_registration(created, replace(created, labels={"a": "b"}))
        with pytest.raises(ConflictError):
            await two.webhooks.write_registration(created, with_bundle(created, ""))
        changed = await two.webhooks.fetch_registration(name)
        await world.delete_registration(name)

        assert before is None
        assert replace(created, resource_version="") == wanted(world)
        assert changed
        assert changed.labels == {"a": "b"}
        assert changed.find(MAIN) == created.find(MAIN)


@in_every_world
async def test_a_pod_that_is_only_tried_is_never_there(world: World) -> None:
    async with world.joined() as link:
        annotations = await link.webhooks.try_pod(world.namespace, {"some": "label"})

        assert annotations == {}
        assert await world.list_pods() == ()
