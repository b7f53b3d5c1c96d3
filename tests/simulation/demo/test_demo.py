"""The demo as a whole: the first hours of one seed, which all tests here look at."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import pytest

from trimtab.core.model.resources import BOTH, Resource
from trimtab.simulation.demo.demo import HAND_OVERS, open_demo
from trimtab.simulation.demo.news import DemoEvent, DemoEventKind
from trimtab.simulation.demo.picture import DemoRow, Picture
from trimtab.simulation.demo.workloads import parts

STEP = timedelta(minutes=10)
SPAN = HAND_OVERS + timedelta(minutes=10)


class Shown(NamedTuple):
    last: Picture
    news: Sequence[DemoEvent]


def run_demo(span: timedelta, *, step: timedelta = STEP, seed: int = 1) -> Shown:
    news: list[DemoEvent] = []
    with open_demo(seed) as demo:
        picture = demo.advance(timedelta())
        while picture.elapsed < span:
            news += picture.news
            picture = demo.advance(step)
    return Shown(picture, (*news, *picture.news))


@pytest.fixture(scope="module")
def shown() -> Shown:
    return run_demo(SPAN)


def of_kind(shown: Shown, kind: DemoEventKind, title: str) -> list[DemoEvent]:
    return [news for news in shown.news if (news.kind, news.title) == (kind, title)]


def row(picture: Picture, title: str) -> DemoRow:
    return next(row for row in picture.rows if row.title == title)


def test_every_workload_gets_a_recommendation_and_something_to_show(shown: Shown) -> None:
    titles = {part.title for part in parts()}
    learned = {news.title for news in shown.news if news.kind is DemoEventKind.LEARNED}

    assert learned == titles
    assert all(row.gauges[Resource.MEMORY].target for row in shown.last.rows)


def test_the_leaking_cache_is_killed_and_then_grows_without_a_restart(shown: Shown) -> None:
    first_kill = of_kind(shown, DemoEventKind.KILLED, "cache")[0]
    growth = of_kind(shown, DemoEventKind.RESIZED, "cache")[0]

    assert first_kill.at < growth.at
    assert growth.after[Resource.MEMORY] > growth.before[Resource.MEMORY]
    assert not of_kind(shown, DemoEventKind.EVICTED, "cache")


def test_the_jvm_starts_with_a_boost_that_ends_when_it_is_ready(shown: Shown) -> None:
    evicted = of_kind(shown, DemoEventKind.EVICTED, "orders")
    boosted = of_kind(shown, DemoEventKind.BOOSTED, "orders")
    ended = of_kind(shown, DemoEventKind.UNBOOSTED, "orders")

    assert len(evicted) == len(boosted) == len(ended) == 2
    assert boosted[0].at < ended[0].at
    assert ended[0].after[Resource.CPU] * 10 == boosted[0].after[Resource.CPU]


def test_who_takes_over_gets_the_size_of_a_leader_within_a_minute(shown: Shown) -> None:
    _, hand_over = of_kind(shown, DemoEventKind.TOOK_OVER, "db leader")
    resized = of_kind(shown, DemoEventKind.RESIZED, "db leader")[0]

    assert resized.pod == hand_over.pod
    assert resized.at - hand_over.at < timedelta(minutes=1)
    assert resized.after[Resource.CPU] > 4 * resized.before[Resource.CPU]


def test_the_batch_job_is_never_interrupted_but_starts_smaller(shown: Shown) -> None:
    sized = of_kind(shown, DemoEventKind.SIZED, "report")

    assert sized[0].after[Resource.CPU] < sized[0].before[Resource.CPU] / 5
    assert not of_kind(shown, DemoEventKind.EVICTED, "report")
    assert not of_kind(shown, DemoEventKind.RESIZED, "report")


def test_what_is_saved_is_what_was_asked_for_less_what_is_requested(shown: Shown) -> None:
    last = shown.last
    by_row = {
        resource: sum(each.pods * (each.gauges[resource].requested or 0) for each in last.rows)
        for resource in BOTH
    }

    assert row(last, "db others").gauges[Resource.CPU].asked == 1000
    for resource in BOTH:
        # Averages are rounded, to less than one for each pod.
        assert by_row[resource] == pytest.approx(last.requested[resource], abs=12)
        assert 0 < last.requested[resource] < last.asked[resource]
        hours = last.elapsed / timedelta(hours=1)
        assert 0 < last.saved_hours[resource] < hours * last.asked[resource]


def test_what_is_counted_is_what_was_told_and_jobs_that_come_again(shown: Shown) -> None:
    counts = dict(shown.last.counts)
    sized_again = counts[DemoEventKind.SIZED] - len(of_kind(shown, DemoEventKind.SIZED, "report"))
    counts[DemoEventKind.SIZED] -= sized_again

    # Of eight jobs in four hours the first one came before anything was known.
    assert sized_again == 6
    assert counts == {kind: sum(news.kind is kind for news in shown.news) for kind in DemoEventKind}


def test_the_same_seed_shows_the_same_however_it_is_sliced() -> None:
    span = timedelta(minutes=30)
    once = run_demo(span)
    again = run_demo(span, step=timedelta(minutes=3))

    assert once.news == again.news
    assert replace(once.last, news=()) == replace(again.last, news=())


def test_another_seed_shows_other_numbers() -> None:
    span = timedelta(minutes=10)

    assert run_demo(span, seed=1).last.rows != run_demo(span, seed=2).last.rows
