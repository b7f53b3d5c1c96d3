"""Whose a role is: by leases, pods and the time, and never two pods' of one workload."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, a_pod, minutes

from trimtab.core import roles
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.model.json_patch import Add, Remove
from trimtab.core.model.pods import OwnerReference, Pod, PodPhase, WorkloadName
from trimtab.core.model.workloads import Workload
from trimtab.core.roles import Post, Role, RolePlan, Sighting, Standing, Tenure

ROLE = Role()
LEADING = {"app": "db", ROLE.label: ROLE.value}
DURATION = timedelta(seconds=15)
SECOND = timedelta(seconds=1)
START = timedelta(hours=3)
DB = WorkloadName("default", "StatefulSet", "db")
OWNER = OwnerReference("StatefulSet", "db", "apps/v1", "uid-db")
POST = Post(DB, "db-leader", frozenset({"uid-db"}))


def a_member(name: str = "db-0", *, leads: bool = False, **fields: object) -> Pod:
    usual = {"created_at": NOW - minutes(10), "owner": OWNER, **fields}
    return a_pod(name=name, labels=LEADING if leads else {"app": "db"}, **usual)  # type: ignore[arg-type]


def a_tenure(holder: str = "db-0", **fields: object) -> Tenure:
    usual = {"duration": DURATION, "renewed_at": NOW, **fields}
    return Tenure(holder, **usual)  # type: ignore[arg-type]


def a_sighting(holder: str = "db-0", **fields: object) -> Sighting:
    return Sighting(a_tenure(holder, **fields), START)


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        pytest.param("db-1", "db-1", id="the pod's name itself"),
        pytest.param("db-1_5f1c", "db-1", id="its name and a random part, as client-go writes it"),
        pytest.param("db-1_a_b", "db-1", id="all that follows the first underscore is no name"),
        pytest.param("x" * 63, "x" * 63 + "-7f9b-abcde", id="a name that the kubelet has cut"),
        pytest.param("y" * 61, "y" * 61 + "-.z-abcde", id="without what it may not end with"),
    ],
)
def test_the_holder_names_a_pod_as_electing_programs_do(holder: str, name: str) -> None:
    pods = [a_member("db-0"), a_member(name), a_member("db-2")]

    assert roles.find_holder(a_sighting(holder), pods, START) is pods[1]


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param("db-9", id="another pod"),
        pytest.param("db", id="the beginning of a name"),
        pytest.param("db-1-x", id="more than a name"),
        pytest.param("_db-1", id="nothing before the underscore"),
        pytest.param("x" * 63, id="a cut name that two pods share"),
    ],
)
def test_a_holder_that_names_no_pod_of_the_workload_gives_nobody_the_role(holder: str) -> None:
    pods = [a_member("db-1"), a_member("x" * 63 + "-a"), a_member("x" * 63 + "-b")]

    assert roles.find_holder(a_sighting(holder), pods, START) is Standing.UNKNOWN_HOLDER


@pytest.mark.parametrize(
    ("sighting", "after", "expected"),
    [
        pytest.param(None, SECOND, Standing.NO_LEASE, id="there is no lease"),
        pytest.param(a_sighting(""), SECOND, Standing.RELEASED, id="it was released"),
        pytest.param(a_sighting(), DURATION, Standing.EXPIRED, id="it was not renewed in time"),
        pytest.param(a_sighting(""), DURATION, Standing.RELEASED, id="it was released long ago"),
    ],
)
def test_nobody_has_the_role_while_the_lease_is_not_held(
    sighting: Sighting | None, after: timedelta, expected: Standing
) -> None:
    pods = [a_member("db-0")]

    assert roles.find_holder(sighting, pods, START + after) is expected


def test_the_role_stays_until_the_very_moment_in_which_the_lease_ends() -> None:
    pods = [a_member("db-0")]
    moment = timedelta(microseconds=1)

    assert roles.find_holder(a_sighting(), pods, START + DURATION - moment) is pods[0]


def test_a_lease_without_a_duration_never_ends_by_itself() -> None:
    pods = [a_member("db-0")]

    assert roles.find_holder(a_sighting(duration=None), pods, START + minutes(999)) is pods[0]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_member(created_at=NOW + SECOND), id="a successor of the same name"),
        pytest.param(a_member(phase=PodPhase.FAILED), id="a pod that has failed"),
        pytest.param(a_member(phase=PodPhase.SUCCEEDED), id="a pod that is done"),
    ],
)
def test_a_pod_that_cannot_have_renewed_the_lease_does_not_get_the_role(pod: Pod) -> None:
    assert roles.find_holder(a_sighting(), [pod], START) is Standing.UNKNOWN_HOLDER


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_member(created_at=NOW), id="made in the same second"),
        pytest.param(a_member(created_at=None), id="made nobody knows when"),
        pytest.param(a_member(phase=PodPhase.PENDING), id="not seen to run yet"),
        pytest.param(a_member(is_deleting=True), id="on its way out, and still the holder"),
    ],
)
def test_a_pod_that_may_have_renewed_the_lease_gets_the_role(pod: Pod) -> None:
    assert roles.find_holder(a_sighting(), [pod], START) is pod


@pytest.mark.parametrize(
    ("renewed_at", "since"),
    [
        pytest.param(NOW - 5 * SECOND, START - 5 * SECOND, id="its age is what it says"),
        pytest.param(NOW + 5 * SECOND, START, id="nothing is renewed in the future"),
        pytest.param(None, START, id="it does not say when"),
    ],
)
def test_at_the_first_look_a_lease_is_as_old_as_it_says(
    renewed_at: object, since: timedelta
) -> None:
    tenure = a_tenure(renewed_at=renewed_at)

    seen = roles.observe(None, tenure, now=START, wall_time=NOW)

    assert seen == Sighting(tenure, since)


def test_after_that_only_our_own_clock_counts_however_wrong_the_holders_is() -> None:
    hour_behind = NOW - minutes(60)
    first = roles.observe(None, a_tenure(renewed_at=hour_behind), now=START, wall_time=NOW)
    renewed = a_tenure(renewed_at=hour_behind + 2 * SECOND)
    second = roles.observe(first, renewed, now=START + 2 * SECOND, wall_time=NOW + 2 * SECOND)
    third = roles.observe(second, renewed, now=START + 9 * SECOND, wall_time=NOW + 9 * SECOND)

    assert first.is_over(START)
    assert third == second == Sighting(renewed, START + 2 * SECOND)
    assert not third.is_over(START + 9 * SECOND)
    assert third.is_over(START + 17 * SECOND)


def plan(pods: list[Pod], found: Pod | Standing, *, may_give: bool = True) -> RolePlan:
    return roles.plan_role(POST, ROLE, pods, found, may_give=may_give)


def test_the_role_goes_from_all_who_wear_it_to_the_one_who_holds_the_lease() -> None:
    pods = [a_member("db-0", leads=True), a_member("db-1"), a_member("db-2", leads=True)]

    made = plan(pods, pods[1])

    assert made.takes == (pods[0], pods[2])
    assert made.gives_to is pods[1]
    assert (made.standing, made.is_idle) == (Standing.HELD, False)


def test_nothing_is_to_be_done_while_the_holder_alone_has_the_role() -> None:
    pods = [a_member("db-0", leads=True), a_member("db-1")]

    assert plan(pods, pods[0]) == RolePlan(POST, Standing.HELD, pods[0])
    assert plan(pods, pods[0]).is_idle


def test_a_vacancy_takes_the_role_from_everybody() -> None:
    pods = [a_member("db-0", leads=True), a_member("db-1")]

    assert plan(pods, Standing.EXPIRED) == RolePlan(POST, Standing.EXPIRED, takes=(pods[0],))


def test_a_role_that_changes_hands_too_often_is_taken_and_not_given() -> None:
    pods = [a_member("db-0", leads=True), a_member("db-1")]

    made = plan(pods, pods[1], may_give=False)

    assert (made.takes, made.gives_to) == ((pods[0],), None)
    assert (made.standing, made.holder) == (Standing.FLAPPING, pods[1])


def test_whoever_has_the_role_already_needs_no_token_to_keep_it() -> None:
    pods = [a_member("db-0", leads=True)]

    assert plan(pods, pods[0], may_give=False).standing is Standing.HELD


@given(
    worn=st.lists(st.booleans(), max_size=5),
    holder=st.integers(-1, 4),
    may_give=st.booleans(),
)
def test_after_any_plan_at_most_the_holder_wears_the_role(
    worn: list[bool], holder: int, *, may_give: bool
) -> None:
    pods = [a_member(f"db-{index}", leads=leads) for index, leads in enumerate(worn)]
    found = pods[holder] if 0 <= holder < len(pods) else Standing.EXPIRED
    made = plan(pods, found, may_give=may_give)
    given_to = [] if made.gives_to is None else [made.gives_to]
    wearers = [pod for pod in pods if ROLE.is_worn_by(pod) and pod not in made.takes] + given_to

    assert wearers in ([], [found])
    assert not made.is_idle or wearers == [pod for pod in pods if ROLE.is_worn_by(pod)]


@pytest.mark.parametrize(
    ("labels", "operation"),
    [
        pytest.param(
            {"app": "db"}, Add("/metadata/labels/trimtab.dev~1role", "leader"), id="beside others"
        ),
        pytest.param({}, Add("/metadata/labels", {ROLE.label: "leader"}), id="the first of all"),
    ],
)
def test_the_role_is_given_by_one_label(labels: dict[str, str], operation: Add) -> None:
    assert ROLE.give(a_pod(labels=labels)) == (operation,)
    assert ROLE.take() == (Remove("/metadata/labels/trimtab.dev~1role"),)


def a_workload(kind: str, name: str, *, owner: str = "", lease: str = "") -> Workload:
    return Workload(
        WorkloadName("default", kind, name),
        OwnerReference("Deployment", owner, "apps/v1", f"uid-{owner}") if owner else None,
        uid=f"uid-{name}",
        role_lease=lease,
    )


def test_workloads_that_name_a_lease_have_a_post_each_and_others_have_none() -> None:
    silent = a_workload("StatefulSet", "web")

    assert roles.list_posts([a_workload("StatefulSet", "db", lease="db-leader"), silent], {}) == [
        POST
    ]


def test_what_an_operator_says_of_a_workload_wins_over_what_it_says_itself() -> None:
    workload = a_workload("StatefulSet", "db", lease="mine")

    assert roles.list_posts([workload], {DB: "db-leader"}) == [POST]


def test_replica_sets_of_a_deployment_are_one_group_with_it() -> None:
    # The Deployment controller copies annotations to ReplicaSets.
    found = roles.list_posts(
        [
            a_workload("ReplicaSet", "web-1", owner="web", lease="web"),
            a_workload("Deployment", "web", lease="web"),
            a_workload("ReplicaSet", "web-2", owner="web", lease="web"),
            a_workload("ReplicaSet", "other-1", owner="other", lease="other"),
            a_workload("ReplicaSet", "alone", lease="alone"),
        ],
        {},
    )

    assert found == [
        Post(
            WorkloadName("default", "Deployment", "web"),
            "web",
            frozenset({"uid-web", "uid-web-1", "uid-web-2"}),
        ),
        Post(WorkloadName("default", "ReplicaSet", "alone"), "alone", frozenset({"uid-alone"})),
    ]


def test_a_replica_set_of_a_deployment_that_was_replaced_belongs_to_nobody() -> None:
    old = OwnerReference("Deployment", "web", "apps/v1", "uid-of-the-old-one")
    orphan = Workload(WorkloadName("default", "ReplicaSet", "web-1"), old, uid="uid-web-1")

    (post,) = roles.list_posts([a_workload("Deployment", "web", lease="web"), orphan], {})

    assert post.owners == {"uid-web"}


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(OWNER, True, id="its workload's"),
        pytest.param(OwnerReference("StatefulSet", "db", "apps/v1", "x"), False, id="a namesake's"),
        pytest.param(None, False, id="nobody's"),
    ],
)
def test_a_post_is_for_the_pods_of_its_workload(
    owner: OwnerReference | None, *, expected: bool
) -> None:
    assert POST.employs(a_pod(owner=owner)) is expected


SEEN = a_tenure("db-0")


@pytest.mark.parametrize(
    ("standing", "seen", "live", "expected"),
    [
        pytest.param(Standing.HELD, SEEN, SEEN, True, id="nothing has changed"),
        pytest.param(
            Standing.HELD, SEEN, a_tenure(renewed_at=NOW + SECOND), True, id="it goes on being held"
        ),
        pytest.param(Standing.HELD, SEEN, a_tenure("db-1"), False, id="another holds it"),
        pytest.param(Standing.HELD, SEEN, None, False, id="it is gone"),
        pytest.param(
            Standing.EXPIRED, SEEN, a_tenure(renewed_at=NOW + SECOND), False, id="it was renewed"
        ),
        pytest.param(Standing.EXPIRED, SEEN, SEEN, True, id="it has expired indeed"),
        pytest.param(Standing.NO_LEASE, None, None, True, id="there is none indeed"),
        pytest.param(Standing.NO_LEASE, None, SEEN, False, id="there is one by now"),
    ],
)
def test_what_a_view_tells_is_compared_with_the_lease_itself(
    standing: Standing, seen: Tenure | None, live: Tenure | None, *, expected: bool
) -> None:
    assert roles.still_stands(standing, seen, live) is expected


@pytest.mark.parametrize(
    ("tokens", "per_second", "expected"),
    [
        pytest.param(1.0, 0.1, True, id="a token is left"),
        pytest.param(0.9, 0.1, False, id="not a whole one"),
        pytest.param(0.0, 0.0, True, id="there is no limit"),
    ],
)
def test_a_role_is_given_only_for_a_token(
    tokens: float, per_second: float, *, expected: bool
) -> None:
    settings = PaceSettings(per_second, 3, slow_start=timedelta())

    assert roles.can_give(Pace(NOW, NOW, tokens), settings) is expected
