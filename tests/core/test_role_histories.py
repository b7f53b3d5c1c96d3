"""Pods whose roles change at random: each sample is counted in exactly one role, or in none."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import WEB, World, a_selector

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.usage.checkpoints import encode_histories

ROLES = ("leader", "follower")
PODS = ("db-0", "db-1", "db-2")
CPU = {role: 100 * 3**number for number, role in enumerate((*ROLES, ""))}
"""Every role uses another amount, so that a histogram shows whose sample it holds."""

walks = st.lists(
    st.tuples(st.sampled_from(PODS), st.sampled_from((*ROLES, "")), st.booleans()),
    max_size=40,
)
"""Which pod plays which role next (none at all if it is empty), and whether it is measured."""


def two_roles() -> tuple[World, dict[str, Autoscaler]]:
    world = World(autoscaler=an_autoscaler(name=ROLES[0]))
    autoscalers = {role: an_autoscaler(name=role) for role in ROLES}
    for role, autoscaler in autoscalers.items():
        world.usage.learn(autoscaler, a_selector(**WEB, role=role))
    return world, autoscalers


def walk(world: World, steps: list[tuple[str, str, bool]]) -> Counter[str]:
    """Let pods play their parts; how many samples each role should have."""
    counted: Counter[str] = Counter()
    for minute, (pod, role, is_measured) in enumerate(steps, start=1):
        world.pod(pod, "app", labels={"role": role} if role else None, minute=minute)
        if is_measured:
            world.cpu([CPU[role]], [minute + 0.5], pod=pod)
            world.memory([CPU[role] * MIB], [minute + 0.5], pod=pod)
            counted[role] += 1
    return counted


def histories(world: World, autoscalers: dict[str, Autoscaler]) -> dict[str, int]:
    """How many samples each role knows of."""
    known = encode_histories(world.usage, [each.identity for each in autoscalers.values()])
    return {
        role: found.total_samples_count if (found := known.get((each.identity, "app"))) else 0
        for role, each in autoscalers.items()
    }


@given(walks)
def test_each_sample_of_a_random_walk_is_counted_in_exactly_one_role(
    steps: list[tuple[str, str, bool]],
) -> None:
    world, autoscalers = two_roles()
    counted = walk(world, steps)

    assert histories(world, autoscalers) == {role: counted[role] for role in ROLES}


@given(walks)
def test_no_role_ever_holds_what_was_used_in_another(
    steps: list[tuple[str, str, bool]],
) -> None:
    world, autoscalers = two_roles()
    counted = walk(world, steps)
    alone = {role: _alone(role, counted[role]) for role in ROLES if counted[role]}

    for role, bucket in alone.items():
        found = world.viewing(autoscalers[role]).history()
        assert set(found.cpu_histogram.bucket_weights) == {bucket}


def _alone(role: str, samples: int) -> int:
    """The one bucket that a role fills which nobody disturbs."""
    world, autoscalers = two_roles()
    world.pod("db-0", "app", labels={"role": role})
    for minute in range(1, samples + 1):
        world.cpu([CPU[role]], [minute], pod="db-0")
    (bucket,) = world.viewing(autoscalers[role]).history().cpu_histogram.bucket_weights
    return bucket


@given(walks, st.integers(0, 39))
def test_a_sample_that_is_older_than_the_change_of_role_is_counted_in_none(
    steps: list[tuple[str, str, bool]], late: int
) -> None:
    world, autoscalers = two_roles()
    walk(world, steps)
    before = histories(world, autoscalers)
    changed = late + len(steps) + 1
    world.pod("db-0", "app", labels={"role": "other"}, minute=changed)
    world.pod("db-0", "app", labels={"role": ROLES[0]}, minute=changed + 1)
    intake = world.cpu([7], [changed + 0.5], pod="db-0")

    assert intake.accepted == 0
    assert histories(world, autoscalers) == before
