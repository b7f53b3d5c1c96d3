from datetime import timedelta

from simulation.checks import (
    test_acts,
    test_learning,
    test_outcomes,
    test_roles,
)
from simulation.toys import EvictEverything, Stage

from trimtab.simulation.checks.disruption import EvictionRate, PodBudgets
from trimtab.simulation.checks.inspector import ALL, MOST_KEPT, Inspector
from trimtab.simulation.world.facts import PodEvicted
from trimtab.simulation.world.virtual_time import START, run_virtually


def test_for_every_checker_there_is_a_sin_that_it_objects_to() -> None:
    tables = [
        *test_acts.SINS,
        *test_learning.SINS,
        *test_outcomes.SINS,
        *test_roles.SINS,
    ]

    assert {case.values[0] for case in tables} == set(ALL)


def test_every_checker_states_its_rule_in_one_sentence() -> None:
    for checker in ALL:
        first, *_ = (checker.__doc__ or "").splitlines()

        assert first.endswith(".")
        assert ". " not in first


def test_an_inspector_lets_all_checkers_see_what_happens() -> None:
    async def work() -> None:
        stage = Stage(EvictionRate, PodBudgets)
        stage.world.budgets.put(test_acts.BUDGET)
        pod = stage.put_pods(1)[0]
        for _ in range(11):
            stage.tell(PodEvicted(stage.world.now(), "toy", pod))

        found = stage.inspector.violations()

        assert {each.checker for each in found} == {"EvictionRate", "PodBudgets"}
        assert all(each.at == START for each in found)
        assert str(found[-1]) == "Mon 00:00:00 PodBudgets: toy evicted default/web-1-0 past web"

    run_virtually(work())


def test_an_inspector_keeps_only_so_many_violations() -> None:
    async def work() -> int:
        stage = Stage(EvictionRate)
        pod = stage.put_pods(1)[0]
        for _ in range(MOST_KEPT + 100):
            stage.tell(PodEvicted(stage.world.now(), "toy", pod))
        return len(stage.inspector.violations())

    assert run_virtually(work()) == MOST_KEPT


def test_an_updater_that_evicts_everything_breaks_many_rules_at_once() -> None:
    async def work() -> set[str]:
        stage = Stage()
        inspector = Inspector(stage.world)
        stage.put_pods(20)
        await stage.play(EvictEverything())
        await stage.wait(timedelta(minutes=1))
        inspector.inspect()
        return {violation.checker for violation in inspector.violations()}

    assert run_virtually(work()) >= {"AdmissionAlive", "Disruption", "EvictionRate", "Modes"}
