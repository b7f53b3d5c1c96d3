"""An explanation as people read it: lines that fit, and times that they can wait for."""

from datetime import timedelta

import msgspec
import pytest
from support.makers.records import NOW

from trimtab.api.explain.document import Explanation, ShownAutoscaler, ShownCondition
from trimtab.api.explain.held import ShownHolding, ShownLevel
from trimtab.api.explain.pods import (
    PodsPage,
    ShownAllocation,
    ShownCheck,
    ShownPod,
    ShownPodContainer,
)
from trimtab.api.explain.recommendation import (
    NumbersPage,
    ShownContainer,
    ShownNumber,
    ShownResource,
)
from trimtab.api.wire.times import format_time
from trimtab.cli.explain.text import lay_out

SMALL = ShownAllocation(requests={"cpu": "100m"})
CHECK = ShownCheck(
    check="lifetime",
    verdict="fail",
    reason="TooYoung",
    until=format_time(NOW + timedelta(hours=11)),
    decisive=True,
    text="it runs for 1h",
)
POD = ShownPod(
    namespace="shop",
    pod="web-0",
    action="Hold",
    reason="TooYoung",
    way="Evict",
    checks=[CHECK, ShownCheck(check="coolDown", verdict="unknown", text="")],
    containers=[
        ShownPodContainer(
            name="app",
            current=SMALL,
            target={"cpu": "200m", "memory": "1Gi"},
            lower_bound={"cpu": "50m"},
            upper_bound={"cpu": "1"},
            notes=["cpu capped to maxAllowed"],
            next=ShownAllocation(),
            next_notes=["unchanged"],
        )
    ],
)
PLAN = PodsPage(source="updater", at=format_time(NOW - timedelta(seconds=20)), pods=[POD])
WHOLE = Explanation(
    autoscaler=ShownAutoscaler(namespace="shop", name="web", mode="Recreate"), plan=PLAN
)


def text(explanation: Explanation, width: int = 80) -> str:
    lines = list(lay_out(explanation, NOW, width))
    assert max(map(len, lines)) <= width
    return "\n".join(lines)


def test_a_mode_that_this_version_does_not_know_is_named() -> None:
    autoscaler = ShownAutoscaler(namespace="shop", name="web", mode="Off", unknown_mode="Yolo")
    told = text(msgspec.structs.replace(WHOLE, autoscaler=autoscaler))

    assert "mode Off (unknown mode 'Yolo', treated as Off), for no target" in told


def with_pods(*pods: ShownPod) -> Explanation:
    return msgspec.structs.replace(WHOLE, plan=msgspec.structs.replace(PLAN, pods=pods))


def with_numbers(**fields: object) -> Explanation:
    page = NumbersPage(
        namespace="shop",
        autoscaler="web",
        source="recommender",
        at=format_time(NOW),
        **fields,  # type: ignore[arg-type]
    )
    return msgspec.structs.replace(WHOLE, numbers=page)


def test_it_is_told_how_long_there_is_to_wait() -> None:
    told = text(WHOLE)

    assert "NO! lifetime                it runs for 1h; passes in 11h, at 2026-08-22" in told
    assert "Plan of the updater that runs, 20s ago." in told
    assert "?   only an updater knows   cool-down" in told


def test_sizes_are_told_as_they_are_should_be_and_would_be() -> None:
    told = text(WHOLE)

    assert "app has requests cpu 100m" in told
    assert "should have cpu 200m [50m to 1], memory 1024Mi (cpu capped to maxAllowed)" in told
    assert "the next pod would have nothing (unchanged)" in told


def test_a_pod_that_stands_in_for_its_template_is_named_as_such() -> None:
    words = "the template of its owner is not known: this pod stands in"
    known = msgspec.structs.replace(POD, next_from_template=True)

    assert words in text(WHOLE)
    assert words not in text(with_pods(known))


def test_pods_of_which_the_same_is_to_be_said_are_told_together() -> None:
    others = [msgspec.structs.replace(POD, pod=f"web-{number}") for number in (1, 2)]
    evicted = msgspec.structs.replace(POD, pod="web-3", action="Evict", reason=None)
    told = text(with_pods(POD, *others, evicted))

    assert told.count("Pod web-") == 2
    assert "and alike: web-1, web-2" in told
    assert "is evicted, so that its successor gets the new size" in told


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            POD, "left as it is: TooYoung; else it would be evicted", id="what would be done"
        ),
        pytest.param(
            msgspec.structs.replace(POD, way=None), "left as it is: TooYoung\n", id="no way is open"
        ),
        pytest.param(
            msgspec.structs.replace(POD, action="Unboost", reason="BoostOver"),
            "is taken out of its startup boost (BoostOver)",
            id="a boost that ends",
        ),
        pytest.param(
            msgspec.structs.replace(POD, action="Resize", reason=None),
            "is resized in place\n",
            id="a resize",
        ),
    ],
)
def test_what_is_done_is_told_first(pod: ShownPod, expected: str) -> None:
    assert expected in text(with_pods(pod))


def test_what_has_no_number_says_why_not() -> None:
    container = ShownContainer(
        name="app",
        samples=0,
        histories=1,
        resources=[
            ShownResource(resource="cpu", absence="NotControlled"),
            ShownResource(resource="memory", absence="NoSamples"),
        ],
    )
    told = text(with_numbers(containers=[container], switched_off=["side"], remarks=["so"]))
    empty = text(with_numbers())

    assert "CPU: no number: the policy does not control it" in told
    assert "MEMORY: no number: nothing is known of its usage yet" in told
    assert "Container side: left alone, as the policy says (mode Off)" in told
    assert "  - so" in told
    assert "No container is known." in empty


def test_only_conditions_that_somebody_has_to_know_are_told() -> None:
    said = [("RecommendationProvided", "True"), ("NoPodsMatched", "True"), ("UsageStale", "False")]
    conditions = [ShownCondition(type=kind, status=status) for kind, status in said]
    autoscaler = msgspec.structs.replace(WHOLE.autoscaler, conditions=conditions)
    told = text(msgspec.structs.replace(WHOLE, autoscaler=autoscaler))

    assert "NoPodsMatched True" in told
    assert "RecommendationProvided" not in told
    assert "UsageStale" not in told


def test_pods_that_are_left_out_are_counted() -> None:
    plan = msgspec.structs.replace(PLAN, left_out=7)

    assert "7 pods more are left out" in text(msgspec.structs.replace(WHOLE, plan=plan))


def test_without_pods_nothing_is_planned() -> None:
    assert "Nothing is planned: it governs no running pod." in text(with_pods())


def test_names_and_texts_of_others_cannot_command_a_terminal() -> None:
    check = msgspec.structs.replace(CHECK, text="it\x1b]0;runs\x07")
    evil = msgspec.structs.replace(POD, pod="web\x1b[2J\nPod db-0", checks=[check])
    lines = list(lay_out(with_pods(evil), NOW, 80))

    assert all(line.isprintable() for line in lines)
    assert "Pod web\\x1b[2J\\nPod db-0" in lines


HELD_MEMORY = ShownHolding(
    needed_at="2026-08-18T14:05:00Z",
    pod="web-2",
    peak="1900Mi",
    spent_gib_hours=21.04,
    price_gib_hours=32.0,
    falls_to="1200Mi",
    falls_at=format_time(NOW + timedelta(hours=9, minutes=20)),
)
HELD_CPU = ShownHolding(
    wanted="116m",
    levels=[
        ShownLevel(
            level="110m", idle=7, missing=0, short_fraction=0.0045, cost=9, is_cheapest=True
        ),
        ShownLevel(level="125m", idle=23, missing=0, short_fraction=0, cost=23),
    ],
)


def holding(kind: str, held: ShownHolding) -> str:
    """Return the explanation of a held target, on one line."""
    number = ShownNumber(percentile=0.9, value="1")
    resource = ShownResource(
        resource=kind,
        target=number,
        lower_bound=number,
        upper_bound=number,
        by_percentile="2",
        held=held,
    )
    container = ShownContainer(name="app", samples=0, histories=1, resources=[resource])
    return " ".join(text(with_numbers(containers=[container])).split())


def test_a_held_target_says_for_whom_at_what_cost_and_until_when() -> None:
    told = holding("memory", HELD_MEMORY)

    assert (
        "held since Tue 2026-08-18 14:05 UTC (web-2 used 1900Mi), has cost 21 of 32 GiB-h,"
        " can fall to 1200Mi in 9h20m" in told
    )
    assert "the estimator `percentile` would say" in told


def test_what_is_needed_all_the_time_cannot_fall() -> None:
    needed = msgspec.structs.replace(HELD_MEMORY, falls_to=None, falls_at=None)

    assert "(web-2 used 1900Mi), no lower target would be enough" in holding("memory", needed)


def test_levels_of_cpu_are_a_table_with_the_cheapest_one_marked() -> None:
    told = holding("cpu", HELD_CPU)

    assert "the cheapest level with its margin is 116m; costs per sample:" in told
    assert "110m 7m 0.0m 0.45% 9m cheapest 125m 23m 0.0m 0.00% 23m" in told
