from msgspec import structs
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, minutes

from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.core.model.pods import Termination
from trimtab.recommender.oom_observer import MEMORY_OF_THE_GONE, OomWatch

APP = a_container(requests=amounts(100, 1000 * MIB), is_running=True)
POD = a_pod(APP, name="web-0")
KEY = ("default", "web-0")
EVICTION = MemoryEviction("default", "web-0", "app", 5000 * MIB, NOW)


def killed(minute: float) -> Termination:
    return Termination("OOMKilled", finished_at=NOW + minutes(minute))


def test_kills_come_in_the_order_of_their_times() -> None:
    watch = OomWatch()
    watch.look(POD)
    watch.look(structs.replace(POD, containers=(structs.replace(APP, last_termination=killed(5)),)))
    other = a_pod(structs.replace(APP, last_termination=killed(2)), name="web-1")
    watch.look(other)

    assert [sighting.kill.time for sighting in watch.drain()] == [
        NOW + minutes(2),
        NOW + minutes(5),
    ]
    assert watch.drain() == []


def test_an_eviction_told_again_and_again_counts_once_while_its_pod_is_remembered() -> None:
    watch = OomWatch()
    watch.look(POD)
    watch.note_eviction(EVICTION)

    assert len(watch.drain()) == 1
    watch.forget([KEY], NOW + minutes(1))
    watch.note_eviction(EVICTION)
    assert watch.drain() == []
    watch.forget([KEY], NOW + minutes(1) + MEMORY_OF_THE_GONE)
    watch.note_eviction(EVICTION)
    assert watch.drain() == []
    assert watch.overlooked == 1


def test_a_pod_is_remembered_for_a_while_after_it_is_gone() -> None:
    watch = OomWatch()
    watch.look(POD)

    assert watch.gone([]) == [KEY]
    assert watch.gone([KEY]) == []
    watch.forget([KEY], NOW)
    watch.forget([KEY], NOW + minutes(5))
    watch.note_eviction(EVICTION)
    assert [sighting.pod for sighting in watch.drain()] == [POD]
    watch.forget([], NOW + MEMORY_OF_THE_GONE)
    assert watch.gone([]) == []


def test_a_pod_that_comes_back_is_no_longer_gone() -> None:
    watch = OomWatch()
    watch.look(POD)
    watch.forget([KEY], NOW)
    watch.look(structs.replace(POD, uid="another"))
    watch.forget([], NOW + minutes(60))

    assert watch.gone([]) == [KEY]
