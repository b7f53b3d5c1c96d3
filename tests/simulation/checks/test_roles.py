"""The checker of roles objects to its sins, and has nothing against the honest twins."""

from dataclasses import replace
from datetime import timedelta

import pytest
from simulation.toys import Scene, Stage, judge

from trimtab.api.kinds.leases import Lease
from trimtab.core.model.pods import Pod
from trimtab.core.roles import Role
from trimtab.simulation.checks.base import Checker
from trimtab.simulation.checks.roles import Roles
from trimtab.simulation.controllers.leader_election import identity

ROLE = Role()
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def put_electing(stage: Stage) -> list[Pod]:
    """Three pods of a Deployment that elect one of them."""
    pods = stage.put_pods(3)
    deployments = stage.world.workloads_of("Deployment")
    for deployment in deployments:
        deployments.put(replace(deployment, role_lease="leader"))
    return pods


def given_to(*leaders: int, taken_from: tuple[int, ...] = ()) -> Scene:
    """Pods get the role one after the other, after others have lost it."""

    async def scene(stage: Stage) -> None:
        pods = put_electing(stage)
        for number in leaders:
            stage.serving.patch_pod("toy", pods[number], ROLE.give(pods[number]))
            if number in taken_from:
                stage.serving.patch_pod("toy", pods[number], ROLE.take())

    return scene


def held(*, leads: int | None, times: int = 100, last: timedelta = SECOND) -> Scene:
    """A pod renews the lease again and again, for the last time some time ago."""

    async def scene(stage: Stage) -> None:
        pods = put_electing(stage)
        await stage.wait(HOUR)
        if leads is not None:
            stage.serving.patch_pod("toy", pods[leads], ROLE.give(pods[leads]))
        lease = Lease("default", "leader", holder=identity(pods[0]))
        for _ in range(times):
            lease = stage.serving.write_lease("pod", lease)
            await stage.wait(2 * SECOND)
        await stage.wait(last)

    return scene


SINS = [
    pytest.param(Roles, given_to(0, 1), given_to(0, 1, taken_from=(0,)), id="two at once"),
    pytest.param(Roles, held(leads=1), held(leads=0), id="the role with somebody else"),
    pytest.param(Roles, held(leads=None), held(leads=0), id="the role with nobody"),
    pytest.param(
        Roles, held(leads=None), held(leads=None, times=10), id="the role with nobody for long"
    ),
    pytest.param(
        Roles,
        held(leads=None),
        held(leads=None, last=20 * SECOND),
        id="the role with nobody while the lease is renewed",
    ),
]


@pytest.mark.parametrize(("checker", "sin", "_"), SINS)
def test_the_checker_objects_to_its_sin(checker: type[Checker], sin: Scene, _: Scene) -> None:
    assert judge(checker, sin)


@pytest.mark.parametrize(("checker", "_", "twin"), SINS)
def test_the_checker_has_nothing_against_the_honest_twin(
    checker: type[Checker], _: Scene, twin: Scene
) -> None:
    assert judge(checker, twin) == []
