from support.makers.records import an_autoscaler, minutes
from support.makers.usage import WEB, World, a_selector, moment

from trimtab.core.usage.containers import PodName
from trimtab.core.usage.retention import find_stale

LIMIT = minutes(5)


def a_world(*containers: str) -> World:
    world = World()
    world.pod("web-0", *containers)
    return world


def stale(world: World, minute: float, *ended: PodName) -> tuple[str, ...]:
    found = find_stale(world.usage, moment(minute), LIMIT, ended=ended)
    return found.get(world.autoscaler.identity, ())


def test_f13_a_container_of_which_nothing_is_read_is_stale_after_a_while() -> None:
    world = a_world("app", "side")
    world.cpu([100], [10], name="app")
    world.cpu([100], [12], name="side")

    assert stale(world, 15) == ()
    assert stale(world, 16) == ("app",)
    assert stale(world, 20) == ("app", "side")


def test_a_memory_reading_is_news_too() -> None:
    world = a_world("app")
    world.memory([1e9], [10])

    assert stale(world, 14) == ()


def test_one_pod_that_tells_is_enough() -> None:
    world = a_world("app")
    world.pod("web-1", labels={"revision": "2"})
    world.cpu([100], [10], pod="web-1")

    assert stale(world, 14) == ()


def test_a_new_pod_is_given_the_time_to_be_read() -> None:
    world = a_world("app")
    world.cpu([100], [0])
    world.usage.forget(PodName("default", "web-0"))

    assert stale(world, 60) == ()
    world.pod("web-1", minute=60)
    assert stale(world, 62) == ()
    assert stale(world, 66) == ("app",)


def test_nobody_waits_for_pods_that_have_ended() -> None:
    world = a_world("app")

    assert stale(world, 60) == ("app",)
    assert stale(world, 60, PodName("default", "web-0")) == ()


def test_each_autoscaler_of_a_pod_is_told() -> None:
    world = a_world("app")
    other = an_autoscaler(name="other")
    world.usage.learn(other, a_selector(**WEB))
    found = find_stale(world.usage, moment(60), LIMIT, ended=())

    assert found == {world.autoscaler.identity: ("app",), other.identity: ("app",)}
