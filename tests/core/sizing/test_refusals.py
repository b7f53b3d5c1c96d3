"""Pods that are never created: less is given to the next ones, and never to a healthy burst."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from trimtab.core.model.json_patch import Add
from trimtab.core.sizing.refusals import (
    KEPT_SECONDS,
    RETRY_SECONDS,
    Attempts,
    Offer,
    OwnerStatus,
    Withheld,
    add_attempt,
    see_status,
)

NOTHING, BOOST, SIZE = Withheld
CPU = "/spec/containers/0/resources/requests/cpu"
MEMORY = "/spec/containers/0/resources/requests/memory"
KINDS = [pytest.param(True, id="it reports failures"), pytest.param(None, id="it does not")]


def an_offer(cpu: str = "1500m", *, boosted: bool = True, sized: bool = True) -> Offer:
    return Offer((Add(CPU, cpu), Add(MEMORY, "1Gi")), is_boosted=boosted, is_sized=sized)


ALL = an_offer()


@dataclass
class Owner:
    """A controller as Kubernetes has them, and copies of admission that remember its pods."""

    accepts: Callable[[Withheld], bool]
    replicas: int = 1
    offer: Offer = ALL
    copies: int = 1
    reports: bool | None = True
    """True if a condition tells of failures; None if none does."""
    seconds_per_pod: float = 0.02
    lags: bool = False
    """True if the status shows the pods that were there before a round, as of ReplicaSets."""
    existing: int = 0
    shown: int = 0
    is_failing: bool = False
    now: float = 1000.0
    backoff: float = 0.005
    came: list[Withheld] = field(default_factory=list)
    attempts: dict[int, Attempts] = field(default_factory=dict)

    @property
    def status(self) -> OwnerStatus:
        is_failing = self.is_failing if self.reports is not None else None
        return OwnerStatus(self.shown, self.replicas, is_failing)

    def send(self) -> bool:
        """Send one pod to the next copy; return True if it is created."""
        copy = len(self.came) % self.copies
        found = add_attempt(self.attempts.get(copy), self.status, self.offer, self.now)
        self.attempts[copy] = found
        self.came.append(found.withheld)
        self.now += self.seconds_per_pod
        is_created = self.accepts(found.withheld)
        self.existing += is_created
        return is_created

    def sync(self) -> bool:
        """Create missing pods in ever larger batches until one is refused, and show the result."""
        is_whole, batch, before = True, 1, self.existing
        while is_whole and self.existing < self.replicas:
            count = min(batch, self.replicas - self.existing)
            is_whole = min([self.send() for _ in range(count)])
            batch *= 2
        self.shown, self.is_failing = before if self.lags else self.existing, not is_whole
        self.look()
        return is_whole

    def show(self) -> None:
        """Show in the status how many pods there are."""
        self.shown = self.existing
        self.look()

    def look(self) -> None:
        for copy, found in self.attempts.items():
            self.attempts[copy] = see_status(found, self.status)

    def work(self, seconds: float) -> None:
        """Try until all pods are there or the time is over."""
        end = self.now + seconds
        self.backoff = 0.005
        while self.existing < self.replicas and self.now < end:
            before = self.existing, self.shown
            if not self.sync():
                # A pod that appears, or a status that changes, starts the next round at once.
                self.now += self.backoff if (self.existing, self.shown) == before else 0.05
                self.backoff = min(2 * self.backoff, 1000.0)
        self.show()

    def lose(self, count: int = 1) -> None:
        """Lose pods, as when nodes go."""
        self.existing -= count
        self.shown = self.existing
        self.look()


def beyond(least: Withheld) -> Callable[[Withheld], bool]:
    """Accept pods from which at least so much is withheld."""
    steps = list(Withheld)
    return lambda withheld: steps.index(withheld) >= steps.index(least)


@pytest.mark.parametrize("reports", KINDS)
@pytest.mark.parametrize(
    ("offer", "least"),
    [
        pytest.param(an_offer(sized=False), BOOST, id="a boost is too much"),
        pytest.param(an_offer(boosted=False), SIZE, id="the recommendation is too much"),
        pytest.param(ALL, BOOST, id="the boost is, the recommendation is not"),
        pytest.param(ALL, SIZE, id="both are"),
    ],
)
def test_pods_that_are_refused_for_their_size_come_with_less(
    offer: Offer, least: Withheld, *, reports: bool | None
) -> None:
    owner = Owner(beyond(least), replicas=10, offer=offer, reports=reports, lags=bool(reports))
    started = owner.now
    owner.work(300)

    assert owner.existing == 10
    assert owner.came[-1] is least
    if reports:
        assert owner.now - started < (5 if least is BOOST else 90)


@given(
    replicas=st.integers(1, 40),
    copies=st.integers(1, 3),
    least=st.sampled_from([BOOST, SIZE]),
    reports=st.sampled_from([True, None]),
)
def test_every_copy_of_admission_finds_out_by_itself(
    replicas: int, copies: int, least: Withheld, *, reports: bool | None
) -> None:
    owner = Owner(beyond(least), replicas=replicas, copies=copies, reports=reports)
    # Where requests go from copy to copy, each of them learns of its own attempts alone.
    owner.work(86_400)

    assert owner.existing == replicas


@given(
    replicas=st.lists(st.integers(1, 500), min_size=1, max_size=2),
    copies=st.integers(1, 3),
    reports=st.sampled_from([True, None]),
    seconds=st.floats(0.001, 10.0),
    failed_before=st.booleans(),
)
def test_nothing_is_withheld_from_bursts_of_pods_that_are_created(
    replicas: list[int],
    copies: int,
    seconds: float,
    *,
    reports: bool | None,
    failed_before: bool,
) -> None:
    owner = Owner(beyond(NOTHING), copies=copies, reports=reports, seconds_per_pod=seconds)
    for each in replicas:
        owner.is_failing = failed_before
        # The status stands still until the last pod of the burst is created.
        owner.replicas = owner.existing + each
        owner.work(1e6)
        owner.now += 5

    assert set(owner.came) == {NOTHING}


@given(st.integers(1, 500), st.floats(0.001, 30.0))
def test_slow_webhooks_of_others_look_like_no_refusal(replicas: int, seconds: float) -> None:
    # Pods of one batch come at once, and the next batch when the slowest of them is stored.
    owner, now = Attempts(0), 1000.0
    batch, came = 1, []
    while replicas > 0:
        for _ in range(min(batch, replicas)):
            owner = add_attempt(owner, OwnerStatus(0, 500), ALL, now)
            came.append(owner.withheld)
        replicas, batch, now = replicas - batch, 2 * batch, now + seconds

    assert set(came) == {NOTHING}


@pytest.mark.parametrize("reports", KINDS)
def test_pods_that_are_replaced_one_after_the_other_appear(*, reports: bool | None) -> None:
    owner = Owner(beyond(NOTHING), replicas=1, reports=reports)
    for _ in range(50):
        # A rollout or an eviction loop: whenever a pod comes, as many exist as before.
        owner.work(60)
        owner.now += 7
        owner.lose()

    assert set(owner.came) == {NOTHING}


def test_a_replica_set_that_reports_no_failure_is_trusted() -> None:
    owner = Owner(beyond(SIZE), reports=None)
    status = OwnerStatus(0, 1, is_failing=False)
    found: Attempts | None = None
    for second in range(1000):
        found = add_attempt(found, status, owner.offer, float(second))
        assert found.withheld is NOTHING


def test_pods_beyond_those_that_an_owner_wants_are_not_judged() -> None:
    found: Attempts | None = None
    for second in range(1000):
        # Any user may create pods with a reference to an owner that lacks none.
        found = add_attempt(found, OwnerStatus(3, 3), ALL, float(second))
        assert found.withheld is NOTHING


def test_pods_that_are_refused_whatever_they_get_come_in_full_size_again() -> None:
    owner = Owner(lambda _: False)
    owner.work(300)

    assert owner.came[-1] is NOTHING
    assert [*_without_repeats(owner.came)] == [NOTHING, BOOST, SIZE, NOTHING]


def _without_repeats(found: list[Withheld]) -> Iterator[Withheld]:
    last: Withheld | None = None
    for each in found:
        if each is not last:
            yield each
        last = each


def test_the_full_size_is_tried_again_ever_later() -> None:
    owner = Owner(beyond(SIZE), replicas=3, lags=True)
    owner.work(300)
    tried = []
    for _ in range(400):
        owner.now += 60
        before = len(owner.came)
        owner.lose(3)
        started = owner.now
        owner.work(60)
        assert owner.existing == 3
        if NOTHING in owner.came[before:]:
            tried.append(started)
            assert owner.now - started < 5
    pauses = [later - earlier for earlier, later in pairwise(tried)]

    assert pauses[0] == pytest.approx(2 * RETRY_SECONDS, rel=0.2)
    assert pauses[1] == pytest.approx(4 * RETRY_SECONDS, rel=0.2)
    assert pauses == sorted(pauses)


def test_the_next_single_pod_is_tried_in_full_size_and_delayed_for_a_moment() -> None:
    owner = Owner(beyond(SIZE))
    owner.work(300)
    for _ in range(20):
        owner.now += 120
        owner.lose()
        started, before = owner.now, len(owner.came)
        owner.work(60)

        assert owner.existing == 1
        assert owner.now - started < 5
        assert owner.came[before] is NOTHING


@given(
    seconds=st.floats(1.0, 600.0),
    replicas=st.integers(1, 40),
    existing=st.integers(0, 5),
    boosted=st.booleans(),
    reports=st.sampled_from([True, None]),
    lags=st.booleans(),
)
def test_an_outage_costs_one_pod_its_recommendation_at_most(
    seconds: float,
    replicas: int,
    existing: int,
    *,
    boosted: bool,
    reports: bool | None,
    lags: bool,
) -> None:
    offer = an_offer(boosted=boosted)
    owner = Owner(beyond(NOTHING), existing + replicas, offer, reports=reports, lags=lags)
    owner.existing = owner.shown = existing
    end = owner.now + seconds
    created = []

    def accept(withheld: Withheld) -> bool:
        is_over = owner.now >= end
        created.extend([withheld] * is_over)
        return is_over

    owner.accepts = accept
    owner.work(3600)
    assert owner.existing == owner.replicas
    assert created.count(SIZE) <= (seconds > 40)
    owner.now += 30
    # Pods that come later have nothing to do with it.
    owner.is_failing, before = False, len(owner.came)
    for _ in range(5):
        owner.replicas += 3
        owner.work(60)
        owner.now += 100
    assert set(owner.came[before:]) == {NOTHING}


@given(st.lists(st.tuples(st.floats(1.0, 40.0), st.floats(1.0, 900.0)), min_size=1, max_size=10))
def test_short_outages_one_after_the_other_cost_no_recommendation(
    outages: list[tuple[float, float]],
) -> None:
    owner = Owner(beyond(NOTHING), 0, lags=True)
    for seconds, pause in outages:
        end = owner.now + seconds
        owner.accepts = lambda _, end=end: owner.now >= end  # type: ignore[misc]
        owner.replicas += 4
        owner.work(3600)
        owner.is_failing = False
        owner.show()
        owner.now += pause

    assert owner.existing == 4 * len(outages)
    assert SIZE not in owner.came


@given(outage=st.floats(1.0, 30.0), after=st.floats(1.0, 500.0))
def test_an_outage_does_not_end_a_size_that_a_policy_demands(outage: float, after: float) -> None:
    owner = Owner(beyond(SIZE), 3, lags=True)
    owner.work(300)
    owner.is_failing = False
    owner.show()
    owner.now += after
    end = owner.now + outage
    owner.accepts = lambda withheld: owner.now >= end and withheld is SIZE
    owner.lose(2)
    started = owner.now
    owner.work(3600)

    assert owner.now - started < 2 * outage + 5


@pytest.mark.parametrize("seed", range(10))
def test_a_lack_of_pods_for_another_reason_hardly_costs_a_recommendation(seed: int) -> None:
    # A quota of five pods, whatever their size; the owner wants eight, and loses some at times.
    random = Random(seed)
    owner = Owner(lambda _: owner.existing < 5, 8, an_offer(boosted=False))
    created = []
    losses = sorted(random.uniform(0, 8 * 3600) for _ in range(40))
    owner.work(300)
    started = owner.now
    for after in losses:
        owner.work(max(started + after - owner.now, 0))
        owner.now = max(owner.now, started + after)
        owner.lose()
        before = len(owner.came)
        owner.sync()
        created.append(owner.came[before])

    assert created.count(SIZE) <= 6


def test_a_rule_that_is_gone_is_forgotten() -> None:
    owner = Owner(beyond(BOOST))
    owner.work(60)
    owner.accepts = beyond(NOTHING)
    owner.now += RETRY_SECONDS
    before = len(owner.came)
    for _ in range(20):
        owner.lose()
        owner.work(10)
        owner.now += 5

    assert set(owner.came[before:]) == {NOTHING}


@pytest.mark.parametrize(
    ("cpu", "withheld"),
    [
        pytest.param("900m", NOTHING, id="less is tried at once"),
        pytest.param("1450m", BOOST, id="hardly less is not"),
        pytest.param("1500m", BOOST, id="the same is not"),
        pytest.param("2", BOOST, id="more is not"),
    ],
)
def test_a_smaller_size_is_tried_at_once(cpu: str, withheld: Withheld) -> None:
    owner = Owner(beyond(BOOST), replicas=3)
    owner.work(60)
    owner.offer = an_offer(cpu)
    owner.lose()
    owner.now += 5
    owner.send()

    assert owner.came[-1] is withheld


def test_more_memory_with_less_cpu_is_not_smaller() -> None:
    owner = Owner(beyond(BOOST), replicas=3)
    owner.work(60)
    patch = (Add(CPU, "100m"), Add(MEMORY, "2Gi"))
    owner.offer = structs.replace(ALL, patch=patch)
    owner.lose()
    owner.send()

    assert owner.came[-1] is BOOST


@pytest.mark.parametrize("reports", KINDS)
def test_an_owner_that_retries_rarely_gets_its_pod_within_few_attempts(
    *, reports: bool | None
) -> None:
    # A copy that has just started meets an owner that waits for a quarter of an hour.
    owner = Owner(beyond(SIZE), reports=reports, is_failing=True)
    while not owner.sync():
        owner.now += 1000

    assert len(owner.came) <= 4


def test_what_is_long_past_is_forgotten() -> None:
    owner = Owner(lambda _: False)
    owner.work(2)
    owner.now += KEPT_SECONDS + 1
    owner.send()

    assert owner.attempts[0].pods == 1
