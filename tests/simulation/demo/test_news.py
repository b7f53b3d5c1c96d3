from dataclasses import replace
from datetime import timedelta

import pytest
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)

from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind, Newsroom, gather
from trimtab.simulation.demo.workloads import parts
from trimtab.simulation.world.facts import (
    ContainerKilled,
    Fact,
    PodCreated,
    PodEvicted,
    PodGone,
    PodResized,
    StatusPublished,
)

LARGE, SMALL = amounts(2000, 2048 * MIB), amounts(500, 512 * MIB)
BOOSTED = {**BOOST_TOLD, annotation_name("app"): "{}"}


def sized(requests: dict[Resource, int] | object, **fields: object) -> Pod:
    return a_pod(a_container(requests=requests), **fields)  # type: ignore[arg-type]


def a_status(*, was_known: bool) -> StatusPublished:
    known = an_autoscaler(a_recommendation(target=SMALL), namespace="shop", name="web")
    unknown = replace(known, recommendation=None)
    return StatusPublished(NOW, "recommender", known if was_known else unknown, known)


def told(*facts: Fact) -> list[DemoEventKind]:
    newsroom = Newsroom(parts())
    for fact in facts:
        newsroom.listen(fact)
    return [news.kind for news in newsroom.take()]


@pytest.mark.parametrize(
    ("fact", "kinds"),
    [
        pytest.param(
            PodCreated(NOW, sized(LARGE), sized(SMALL), (), webhook_answered=True),
            [DemoEventKind.SIZED],
            id="admission gives a new pod another size",
        ),
        pytest.param(
            PodCreated(NOW, sized(LARGE), sized(LARGE), (), webhook_answered=True),
            [],
            id="a pod comes in as its owner wants it",
        ),
        pytest.param(
            PodCreated(
                NOW, sized(SMALL), sized(LARGE, annotations=BOOSTED), (), webhook_answered=True
            ),
            [DemoEventKind.BOOSTED],
            id="a pod starts with a boost",
        ),
        pytest.param(
            PodResized(NOW, "updater", sized(LARGE), sized(SMALL)),
            [DemoEventKind.RESIZED],
            id="a running pod gets another size",
        ),
        pytest.param(
            PodResized(NOW, "updater", sized(SMALL), sized(SMALL)),
            [],
            id="a resize that changes no request",
        ),
        pytest.param(
            PodResized(NOW, "updater", sized(LARGE, annotations=BOOSTED), sized(SMALL)),
            [DemoEventKind.UNBOOSTED],
            id="a boost ends",
        ),
        pytest.param(
            PodEvicted(NOW, "updater", sized(LARGE)), [DemoEventKind.EVICTED], id="an eviction"
        ),
        pytest.param(
            ContainerKilled(NOW, sized(LARGE), "app", 3 * MIB, 2 * MIB),
            [DemoEventKind.KILLED],
            id="an OOM kill",
        ),
        pytest.param(
            a_status(was_known=False), [DemoEventKind.LEARNED], id="a first recommendation"
        ),
        pytest.param(a_status(was_known=True), [], id="a later recommendation"),
        pytest.param(PodGone(NOW, sized(LARGE)), [], id="what follows from something told"),
    ],
)
def test_facts_that_people_care_about_are_news_and_others_are_not(
    fact: Fact, kinds: list[DemoEventKind]
) -> None:
    assert told(fact) == kinds


def test_a_job_that_starts_with_the_same_size_again_is_counted_but_no_news() -> None:
    newsroom = Newsroom(parts())
    for _ in range(3):
        newsroom.listen(PodCreated(NOW, sized(LARGE), sized(SMALL), (), webhook_answered=True))

    assert len(newsroom.take()) == 1
    assert newsroom.counts()[DemoEventKind.SIZED] == 3


def test_news_are_told_once_and_counted_for_ever() -> None:
    newsroom = Newsroom(parts())
    newsroom.listen(PodEvicted(NOW, "updater", sized(LARGE)))
    first, second = newsroom.take(), newsroom.take()

    assert len(first) == 1
    assert second == ()
    assert newsroom.counts()[DemoEventKind.EVICTED] == 1


def test_what_happens_again_in_a_row_is_one_piece_of_news_from_first_to_last() -> None:
    later = NOW + timedelta(minutes=5)
    first = DemoEvent(NOW, "cache", DemoEventKind.RESIZED, amounts(1, 10), amounts(1, 20))
    second = DemoEvent(later, "cache", DemoEventKind.RESIZED, amounts(1, 20), amounts(1, 30))
    other = DemoEvent(later, "web", DemoEventKind.RESIZED, amounts(1, 20), amounts(1, 30))

    assert gather([first, second, other, first]) == [
        DemoEvent(later, "cache", DemoEventKind.RESIZED, amounts(1, 10), amounts(1, 30), times=2),
        other,
        first,
    ]


def test_news_can_be_gathered_piece_by_piece() -> None:
    news = [
        DemoEvent(NOW, title, DemoEventKind.EVICTED, amounts(1, 1), amounts(1, 1))
        for title in ("web", "web", "web", "cache", "cache", "web")
    ]

    assert gather([*gather(news[:2]), *news[2:]]) == gather(news)
