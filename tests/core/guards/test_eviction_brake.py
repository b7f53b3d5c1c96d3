"""The brake across workloads: evictions stop where evicted pods get no successors."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import NOW, a_pod

from trimtab.core.guards.convergence import Expectation
from trimtab.core.guards.eviction_brake import (
    LACKS_AFTER,
    NO_BRAKE,
    NO_DOUBT,
    PROBE_AFTER,
    Brake,
    Lack,
    find_brake,
    find_lack,
    newest_successor,
    renew_doubt,
)
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName

SECOND = timedelta(seconds=1)
AGO = NOW - LACKS_AFTER
ALL_TURNS = timedelta(minutes=50)
"""While the cluster stops, first probes are spread over this span."""


def of(name: str, namespace: str = "shop", kind: str = "Deployment") -> WorkloadName:
    return WorkloadName(namespace, kind, name)


def pods(*names: str, **fields: object) -> list[Pod]:
    return [structs.replace(a_pod(name=each), uid=each, **fields) for each in names]


def evicted(
    uid: str = "c", *, since: datetime = AGO, kind: str = "Deployment", is_answered: bool = True
) -> Expectation:
    return Expectation(
        of("web", kind=kind),
        AutoscalerName("shop", "web"),
        uid,
        before={},
        wanted={},
        since=since,
        known=frozenset("abc"),
        is_answered=is_answered,
    )


@pytest.mark.parametrize(
    ("found", "eviction", "wanted", "expected"),
    [
        pytest.param(pods("a", "b"), evicted(), 3, True, id="no successor came"),
        pytest.param(pods("a", "b"), evicted(since=AGO + SECOND), 3, False, id="it is early"),
        pytest.param(pods("a", "b", "d"), evicted(), 3, False, id="a successor came"),
        pytest.param(pods("a", "b", "d"), evicted(), 5, False, id="the owner grows, too"),
        pytest.param(pods("a", "b"), evicted(), 2, False, id="the owner was scaled down"),
        pytest.param(pods("a", "b"), evicted(), 0, False, id="the owner does not count pods"),
        pytest.param(
            [*pods("a", "b"), *pods("x", phase=PodPhase.FAILED)],
            replace(evicted(), known=frozenset("abcx")),
            3,
            True,
            id="a pod that has ended is no successor",
        ),
        pytest.param(
            [*pods("a", "b"), *pods("c", is_deleting=True)],
            evicted(),
            3,
            True,
            id="a Deployment does not wait for the end of the pod",
        ),
        pytest.param(
            [*pods("a", "b"), *pods("c", is_deleting=True)],
            evicted(kind="StatefulSet"),
            3,
            False,
            id="a StatefulSet waits for the end of the pod",
        ),
        pytest.param(
            [*pods("a", "b"), *pods("c", is_deleting=True)],
            evicted(is_answered=False),
            3,
            False,
            id="an eviction without an answer may not have been made",
        ),
        pytest.param(
            pods("a", "b"), evicted(kind="StatefulSet"), 3, True, id="a StatefulSet lacks one"
        ),
    ],
)
def test_a_workload_lacks_a_successor(
    found: list[Pod], eviction: Expectation, wanted: int, *, expected: bool
) -> None:
    lack = find_lack(None, [eviction], found, wanted=wanted, now=NOW)

    assert (lack is not None) is expected


def test_a_lack_outlasts_its_eviction_until_a_new_pod_comes() -> None:
    lack = Lack(AGO, frozenset("ab"))

    assert find_lack(lack, [], pods("a"), wanted=3, now=NOW) == lack
    assert find_lack(lack, [], pods("a", "d"), wanted=3, now=NOW) is None
    assert find_lack(lack, [], pods("a"), wanted=1, now=NOW) is None


def test_a_lack_knows_when_its_workload_was_last_evicted() -> None:
    evictions = [evicted("c"), evicted("b", since=AGO + SECOND)]
    lack = find_lack(None, evictions, pods("a"), wanted=3, now=NOW)
    assert lack is not None
    later = find_lack(lack, [evicted("a", since=NOW)], pods("x"), wanted=3, now=NOW)
    probed = find_lack(lack, [evicted("a", since=NOW)], [], wanted=3, now=NOW)

    assert lack.tried_at == AGO + SECOND
    assert later is None, "a new pod came"
    assert probed == replace(lack, tried_at=NOW)
    assert find_lack(probed, [], [], wanted=3, now=NOW) == probed


def test_each_successor_speaks_for_one_eviction() -> None:
    found = pods("a", "d", created_at=AGO - SECOND)
    evictions = [evicted("c"), evicted("b")]

    assert find_lack(None, evictions, found, wanted=3, now=NOW) is not None
    # An owner that has just created a pod can.
    fresh = pods("a", "d", created_at=NOW - SECOND)
    assert find_lack(None, evictions, fresh, wanted=3, now=NOW) is None


def test_the_newest_successor_is_a_pod_that_was_not_there() -> None:
    old, new = pods("a", created_at=NOW), pods("d", created_at=AGO)

    assert newest_successor([evicted()], [*old, *new], NOW) == AGO
    assert newest_successor([evicted()], old, NOW) is None
    assert newest_successor([], new, NOW) is None


def stopped(brake: Brake, name: str, namespace: str, now: datetime = NOW) -> bool:
    return not brake.may_evict(of(name, namespace), namespace, now)


def test_a_lack_stops_its_namespace_and_no_other() -> None:
    brake = find_brake({of("web"): Lack(AGO)}, {}, {"shop": AGO})

    assert stopped(brake, "web", "shop")
    assert stopped(brake, "other", "shop")
    assert not stopped(brake, "other", "bank")
    assert brake.everywhere is None


def test_a_successor_since_leaves_only_the_workload_itself_stopped() -> None:
    brake = find_brake({of("web"): Lack(AGO)}, {"shop": AGO + SECOND}, {"shop": AGO})

    assert stopped(brake, "web", "shop")
    assert not stopped(brake, "other", "shop")


@pytest.mark.parametrize(
    ("namespaces", "created", "expected"),
    [
        pytest.param(2, {}, False, id="two namespaces"),
        pytest.param(3, {}, True, id="three namespaces"),
        pytest.param(3, {"bank": AGO - SECOND}, True, id="others got pods before"),
        pytest.param(9, {"farm": AGO + SECOND}, False, id="another got one since"),
        pytest.param(3, {"n0": AGO + SECOND}, False, id="one of them got one since"),
        pytest.param(3, {"kube-system": AGO + SECOND}, True, id="webhooks leave this one out"),
    ],
)
def test_the_cluster_stops_if_namespaces_lack_successors_and_no_pod_is_created(
    namespaces: int, created: dict[str, datetime], *, expected: bool
) -> None:
    lacking = {of("web", f"n{place}"): Lack(AGO) for place in range(namespaces)}
    brake = find_brake(lacking, created, {})

    assert (brake.everywhere is not None) is expected
    assert stopped(brake, "other", "bank") is expected


def test_many_workloads_of_one_namespace_stop_no_other() -> None:
    brake = find_brake({of(f"w{place}"): Lack(AGO) for place in range(50)}, {}, {})

    assert not stopped(brake, "other", "bank")


def test_a_namespace_in_which_a_pod_was_created_is_not_stopped_by_others() -> None:
    lacking = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}
    brake = find_brake(lacking, {"kube-system": AGO + SECOND}, {})

    assert stopped(brake, "other", "bank")
    assert not stopped(brake, "other", "kube-system")


def test_a_namespace_tries_one_eviction_after_a_while() -> None:
    brake = find_brake({of("web"): Lack(AGO)}, {}, {"shop": NOW})
    later = NOW + PROBE_AFTER
    workload = of("other")

    assert not brake.may_evict(workload, "shop", later - SECOND)
    assert brake.may_evict(workload, "shop", later)
    assert not brake.may_evict(of("web"), "shop", later), "it would only lose another pod"


@pytest.mark.parametrize(
    ("created", "is_rescue", "expected"),
    [
        pytest.param({}, False, False, id="no pod was created there since"),
        pytest.param({}, True, True, id="its pods have nothing to lose"),
        pytest.param({"shop": AGO + SECOND}, False, True, id="others got pods since"),
        pytest.param({"bank": AGO + SECOND}, False, False, id="others elsewhere got pods"),
    ],
)
def test_a_workload_that_lacks_a_successor_is_tried_again(
    created: dict[str, datetime], *, is_rescue: bool, expected: bool
) -> None:
    # That others of the namespace are evicted all the time does not put it off.
    lacking = {of("web"): Lack(AGO, tried_at=NOW)}
    brake = find_brake(lacking, created, {"shop": NOW + PROBE_AFTER})
    later = NOW + PROBE_AFTER

    assert brake.may_evict(of("web"), "shop", later, is_rescue=is_rescue) is expected
    assert not brake.may_evict(of("web"), "shop", later - SECOND, is_rescue=is_rescue)


def test_while_the_cluster_stops_each_namespace_has_a_probe_of_its_own() -> None:
    lacking = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}
    # Probes of others do not put off its own.
    brake = find_brake(lacking, {}, {"n0": NOW, "farm": NOW + ALL_TURNS})
    first, last = AGO + PROBE_AFTER, AGO + PROBE_AFTER + ALL_TURNS
    names = [f"free-{number}" for number in range(100)]
    early = [each for each in names if brake.may_evict(of("web", each), each, AGO + ALL_TURNS / 2)]

    assert all(stopped(brake, "web", each, first - SECOND) for each in names)
    assert not any(stopped(brake, "web", each, last) for each in names)
    assert 10 < len(early) < 60, "not all at once"
    assert not brake.may_evict(of("other", "n1"), "n1", last), "it would only lose another pod"
    assert stopped(brake, "web", "farm", last), "one in ten minutes"


def test_a_pod_that_has_nothing_to_lose_needs_no_turn() -> None:
    lacking = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}
    brake = find_brake(lacking, {}, {})
    later = AGO + PROBE_AFTER

    for name in ("n1", "bank", "farm"):
        assert brake.may_evict(of("other", name), name, later, is_rescue=True)
        assert not brake.may_evict(of("other", name), name, later - SECOND, is_rescue=True)


def test_a_tenant_cannot_put_off_the_probes_of_others_by_new_lacks() -> None:
    first = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}
    doubt = renew_doubt(renew_doubt(NO_DOUBT, first, {}), {}, {})
    # Its owners were scaled down and up, and lack successors again.
    again = {of("web", f"n{place}"): Lack(AGO + ALL_TURNS) for place in range(9)}
    brake = find_brake(again, {}, {}, doubt)

    assert brake.everywhere == AGO
    assert not stopped(brake, "web", "bank", AGO + PROBE_AFTER + ALL_TURNS)


def test_a_tenant_cannot_stop_others_again_at_once() -> None:
    first = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}
    created = {"farm": AGO + SECOND}
    doubt = renew_doubt(NO_DOUBT, first, created)
    soon = {of("web", f"m{place}"): Lack(AGO + PROBE_AFTER) for place in range(9)}
    late = {each: Lack(AGO + PROBE_AFTER + SECOND) for each in soon}

    assert not stopped(find_brake({**first, **soon}, created, {}, doubt), "web", "bank")
    assert not stopped(find_brake(soon, created, {}, doubt), "web", "bank")
    assert stopped(find_brake(late, created, {}, doubt), "web", "bank")


def test_old_lacks_do_not_keep_new_ones_from_stopping_the_cluster() -> None:
    old = {of("web", f"old-{place}"): Lack(AGO - timedelta(hours=2)) for place in range(9)}
    created = {"farm": AGO - SECOND}
    doubt = renew_doubt(NO_DOUBT, old, created)
    new = {of("web", f"n{place}"): Lack(AGO) for place in range(3)}

    assert stopped(find_brake({**old, **new}, created, {}, doubt), "web", "bank")


def test_the_words_name_no_namespace_of_others() -> None:
    lacking = {of("secret", f"n{place}"): Lack(AGO) for place in range(3)}
    stop = find_brake(lacking, {}, {}).find_stop(of("web", "bank"), "bank")

    assert stop is not None
    assert "secret" not in stop.detail
    assert "n0" not in stop.detail


@given(
    lacks=st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from("vwxyz")), st.integers(0, 90), max_size=12
    ),
    created=st.dictionaries(st.sampled_from("abc"), st.integers(0, 90)),
)
def test_two_namespaces_never_stop_a_third(
    lacks: dict[tuple[str, str], int], created: dict[str, int]
) -> None:
    lacking = {
        of(name, namespace): Lack(NOW - since * SECOND)
        for (namespace, name), since in lacks.items()
    }
    times = {name: NOW - at * SECOND for name, at in created.items()}

    assert not stopped(find_brake(lacking, times, {}), "web", "third")


def test_without_lacks_nothing_stops() -> None:
    assert find_brake({}, {"shop": NOW}, {"shop": NOW}) is NO_BRAKE
