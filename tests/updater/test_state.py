from datetime import timedelta

from msgspec import structs
from support.makers.records import NOW, a_container, a_pod, minutes

from trimtab.core.guards.disruption_budgets import owner_of
from trimtab.core.model.pods import Termination
from trimtab.updater.state import UpdaterMemory

READY = a_pod(name="ready", ready_since=NOW - minutes(5))
RESTARTING = a_pod(name="restarting", ready_since=None)


def settling(memory: UpdaterMemory, after: timedelta) -> set[str]:
    return set(memory.settling([READY, RESTARTING], NOW + after))


def test_just_after_a_start_a_pod_that_is_not_ready_counts_as_disturbed() -> None:
    memory = UpdaterMemory()

    assert settling(memory, timedelta()) == {RESTARTING.uid}
    assert settling(memory, minutes(4)) == {RESTARTING.uid}


def test_later_only_what_was_done_by_itself_counts() -> None:
    memory = UpdaterMemory()
    settling(memory, timedelta())

    assert settling(memory, minutes(6)) == set()


def test_a_pod_about_which_a_request_is_not_answered_is_not_counted_on() -> None:
    memory = UpdaterMemory()
    settling(memory, timedelta())
    memory.under_way.add(READY.uid)

    assert settling(memory, minutes(6)) == {READY.uid}


def test_who_leads_again_counts_pods_that_are_not_ready_as_after_a_start() -> None:
    memory = UpdaterMemory()
    settling(memory, timedelta())
    memory.begin_anew()

    assert settling(memory, minutes(60)) == {RESTARTING.uid}
    assert settling(memory, minutes(66)) == set()


def test_after_an_eviction_a_sibling_that_is_not_ready_may_be_the_successor() -> None:
    memory = UpdaterMemory()
    settling(memory, timedelta())
    owner = owner_of(RESTARTING)
    assert owner is not None
    memory.disturbed[owner] = NOW + minutes(8)

    assert settling(memory, minutes(10)) == {RESTARTING.uid}
    assert settling(memory, minutes(14)) == set()
    assert memory.disturbed == {}


def test_a_pod_that_was_just_made_is_not_counted_on_until_it_is_ready() -> None:
    memory = UpdaterMemory()
    settling(memory, timedelta())
    late = structs.replace(RESTARTING, uid="late", created_at=NOW + minutes(60))
    ready = structs.replace(late, uid="ready", ready_since=NOW + minutes(61))

    killed = Termination("OOMKilled", finished_at=NOW + minutes(61))
    fallen = structs.replace(late, uid="fallen", containers=(a_container(last_termination=killed),))

    assert memory.settling([late, ready, fallen, RESTARTING], NOW + minutes(62)) == {"late"}
    assert memory.settling([late, ready, RESTARTING], NOW + minutes(66)) == set()
