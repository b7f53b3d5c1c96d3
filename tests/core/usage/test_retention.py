from datetime import timedelta

from support.makers.records import MIB, an_autoscaler
from support.makers.usage import DAY, World, moment

from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.retention import Garbage, collect_garbage

WEB_0 = PodName("default", "web-0")
NOTHING = Garbage()


def a_world(*containers: str) -> World:
    world = World()
    world.pod("web-0", *(containers or ("app",)))
    return world


def collect(
    world: World,
    day: float,
    ended: frozenset[PodName] = frozenset(),
    abandoned: frozenset[PodName] = frozenset(),
) -> Garbage:
    return collect_garbage(world.usage, moment(day * DAY), ended=ended, abandoned=abandoned)


def test_a_history_outlives_its_pods_for_eight_days() -> None:
    world = a_world()
    world.cpu([100], [DAY])
    world.usage.forget(WEB_0)

    assert collect(world, 8.9) == NOTHING
    assert collect(world, 9) == Garbage(aggregates=1)
    assert world.recommendation().containers == ()
    assert len(world.usage.aggregates) == 0


def test_an_override_of_the_interval_changes_how_long_that_is() -> None:
    policy = ContainerPolicy("*", memory_interval=timedelta(hours=12), memory_interval_count=2)
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    world.pod("web-0", "app")
    world.cpu([100], [0])
    world.usage.forget(WEB_0)

    assert collect(world, 1) == Garbage(aggregates=1)


def test_f11_a_running_container_keeps_its_history_however_old_it_is() -> None:
    world = a_world()
    world.cpu([100], [0])

    assert collect(world, 30) == NOTHING


def test_f11_the_history_of_a_renamed_container_ages_out() -> None:
    world = a_world("old")
    world.cpu([100], [0], name="old")
    world.pod("web-0", "new")
    world.cpu([100], [1], name="new")

    assert collect(world, 7) == NOTHING
    assert collect(world, 9) == Garbage(aggregates=1)
    assert [one.container_name for one in world.recommendation().containers] == ["new"]


def test_f5_what_an_oom_kill_taught_survives_though_cpu_was_never_sampled() -> None:
    world = a_world()
    world.oom([500 * MIB], [0])
    bumped = world.container()
    world.usage.forget(WEB_0)

    assert collect(world, 1) == NOTHING
    assert world.container() == bumped
    assert collect(world, 9) == Garbage(aggregates=1)


def test_f5_memory_readings_alone_keep_a_history_alive() -> None:
    world = a_world()
    world.memory([500 * MIB, 400 * MIB], [0, 5 * DAY])
    world.usage.forget(WEB_0)

    assert collect(world, 12) == NOTHING
    assert collect(world, 13) == Garbage(aggregates=1)


def test_a_pod_that_never_told_anything_leaves_nothing_behind() -> None:
    world = a_world()
    world.usage.forget(WEB_0)

    assert collect(world, 0.1) == Garbage(aggregates=1)


def test_a_finished_pod_keeps_an_empty_history_while_its_workload_is_there() -> None:
    world = a_world()
    ended = frozenset({WEB_0})

    assert collect(world, 1, ended=ended) == NOTHING
    assert collect(world, 1, ended=ended, abandoned=ended) == Garbage(aggregates=1)
    assert world.row() == -1


def test_a_finished_pod_is_tracked_anew_when_it_is_seen_again() -> None:
    world = a_world()
    ended = frozenset({WEB_0, PodName("default", "gone")})
    collect(world, 1, ended=ended, abandoned=ended)
    world.pod("web-0", "app")

    assert world.row() >= 0
    assert world.cpu([100], [2 * DAY]).accepted == 1


def test_a_finished_pod_beside_a_running_one_changes_nothing() -> None:
    world = a_world()
    world.pod("web-1", "app")
    ended = frozenset({WEB_0})

    assert collect(world, 30, ended=ended, abandoned=ended) == NOTHING


def restored(*live: str) -> World:
    """A restart with checkpoints of two containers, after which only some are seen again."""
    world = a_world("app", "old")
    for name in ("app", "old"):
        world.cpu([100], [0], name=name)
    world = world.restarted(1)
    if live:
        world.pod("web-0", *live)
    return world


def test_f11_the_checkpoint_of_a_container_that_is_no_more_ages_out() -> None:
    world = restored("app")
    identity = world.autoscaler.identity

    assert collect(world, 7) == NOTHING
    assert collect(world, 8) == Garbage(checkpoints=((identity, "old"),))
    assert [one.container_name for one in world.recommendation().containers] == ["app"]


def test_checkpoints_stay_while_the_workload_has_no_pods_at_all() -> None:
    world = restored()

    assert collect(world, 300) == NOTHING
    assert len(world.recommendation().containers) == 2


def test_the_checkpoint_of_a_running_container_stays() -> None:
    world = restored("app", "old")

    assert collect(world, 300) == NOTHING


def test_a_checkpoint_without_cpu_samples_ages_from_its_last_writing() -> None:
    world = a_world("app", "old")
    world.memory([MIB, MIB], [0, DAY], name="old")
    world = world.restarted(2 * DAY)
    world.pod("web-0", "app")

    assert collect(world, 9) == NOTHING
    assert collect(world, 10).checkpoints == ((world.autoscaler.identity, "old"),)


def test_f33_a_week_of_jobs_with_labels_of_their_own_stays_small() -> None:
    world, sizes = World(), []
    for hour in range(24 * 21):
        name = f"job-{hour}"
        world.pod(name, "app", labels={"job": name}, minute=60 * hour)
        world.cpu([100], [60 * hour], pod=name)
        world.usage.forget(PodName("default", name))
        collect(world, hour / 24)
        sizes.append(len(world.usage.aggregates))

    assert max(sizes) == sizes[-1] == 8 * 24
    assert len(world.usage.containers) == 0
    assert len(world.usage.aggregates.cpu) == 8 * 24 + 1


def test_rows_are_used_again_in_one_order_whatever_the_order_of_ended_pods() -> None:
    rows = []
    for names in (["web-0", "web-1"], ["web-1", "web-0"]):
        world = a_world()
        world.pod("web-1", "app")
        world.cpu([100], [0])
        # The keys of a dictionary are a set with an order.
        ended = dict.fromkeys(PodName("default", name) for name in names).keys()
        collect_garbage(world.usage, moment(9 * DAY), ended=ended, abandoned=ended)
        world.pod("web-2", "app")
        world.pod("web-3", "app")
        rows.append((world.row("web-2"), world.row("web-3")))

    assert rows[0] == rows[1]
