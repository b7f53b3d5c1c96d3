"""Which decisions are new, and since when the others stand."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, a_pod, minutes

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Hold, Outcome
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.decisions import Decisions
from trimtab.updater.reports import HeldWhileActing, PlanMade, ViewNotReady

WEB = AutoscalerName("default", "web")
REASONS = [HoldReason.TOO_YOUNG, HoldReason.BUDGET_SPENT]


def held(name: str, reason: HoldReason = HoldReason.TOO_YOUNG) -> Hold:
    return Hold(a_pod(name=name, uid=name), WEB, reason)


def evicted(name: str) -> Evict:
    return Evict(a_pod(name=name, uid=name), WEB, Change())


def planned(*outcomes: Outcome, after: float = 0, is_all: bool = True) -> PlanMade:
    return PlanMade(NOW + minutes(after), outcomes, {}, is_all)


def test_a_decision_is_new_once_and_stands_since_then() -> None:
    decisions = Decisions()
    first = decisions.hear(planned(held("a"), evicted("b")))
    again = decisions.hear(planned(held("a"), evicted("b"), after=1))

    assert first == [held("a"), evicted("b")]
    assert again == []
    assert decisions.since(held("a")) == decisions.since(evicted("b")) == NOW


def test_another_reason_and_another_act_are_new_decisions() -> None:
    decisions = Decisions()
    decisions.hear(planned(held("a"), evicted("b")))
    other = planned(held("a", HoldReason.BUDGET_SPENT), held("b"), after=1)

    assert decisions.hear(other) == list(other.outcomes)
    assert decisions.since(held("a")) is None
    assert decisions.since(held("b")) == NOW + minutes(1)


def test_another_governor_makes_a_new_decision_and_other_amounts_do_not() -> None:
    decisions = Decisions()
    decisions.hear(planned(held("a"), held("b")))
    adopted = replace(held("a"), autoscaler=AutoscalerName("default", "new"))
    larger = replace(held("b"), change=Change(relative_difference=0.5))

    assert decisions.hear(planned(adopted, larger, after=1)) == [adopted]
    assert decisions.since(larger) == NOW


def test_a_part_forgets_nothing_and_a_whole_plan_forgets_what_is_gone() -> None:
    decisions = Decisions()
    decisions.hear(planned(held("a"), held("b")))
    decisions.hear(planned(held("b"), after=1, is_all=False))
    kept = decisions.since(held("a"))
    decisions.hear(planned(held("b"), after=2))

    assert kept == NOW
    assert decisions.since(held("a")) is None


def test_what_is_held_while_acting_is_a_new_decision_too() -> None:
    decisions = Decisions()
    decisions.hear(planned(evicted("a")))
    protected = held("a", HoldReason.POD_DISRUPTION_BUDGET)

    assert decisions.hear(HeldWhileActing(NOW, [protected])) == [protected]
    assert decisions.held[HoldReason.POD_DISRUPTION_BUDGET] == 1
    assert decisions.hear(ViewNotReady(NOW)) == []


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abc"), st.sampled_from(REASONS)), st.booleans())
    )
)
def test_the_count_of_held_pods_is_that_of_the_decisions_that_stand(
    plans: list[tuple[dict[str, HoldReason], bool]],
) -> None:
    decisions, standing = Decisions(), dict[str, HoldReason]()
    for holds, is_all in plans:
        outcomes = [held(name, reason) for name, reason in holds.items()]
        decisions.hear(planned(*outcomes, is_all=is_all))
        standing = holds if is_all else standing | holds

    assert +decisions.held == {
        reason: count for reason in REASONS if (count := list(standing.values()).count(reason))
    }
