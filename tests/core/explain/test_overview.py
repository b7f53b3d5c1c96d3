from collections.abc import Sequence

from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.explain.overview import ContainerView, survey
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

_WEB = WorkloadName("default", "Deployment", "web")


def _survey(autoscalers: Sequence[Autoscaler], pods: Sequence[Pod]) -> list[ContainerView]:
    return survey(
        Snapshot(
            pods=[ObservedPod(pod, _WEB) for pod in pods],
            autoscalers=[ObservedAutoscaler(each, Selector()) for each in autoscalers],
        )
    )


def _pod(name: str, cpu: int, **fields: object) -> Pod:
    return a_pod(a_container(requests=amounts(cpu, 100 * MIB)), name=name, **fields)  # type: ignore[arg-type]


def test_requests_are_those_of_a_pod_in_the_middle() -> None:
    target = amounts(150, 200 * MIB)
    recommendation = a_recommendation(target=target)
    autoscaler = an_autoscaler(recommendation=(recommendation,))
    pods = [_pod("a", 100), _pod("b", 300), _pod("c", 900)]
    (view,) = _survey([autoscaler], pods)

    assert (view.pods, view.container) == (3, "app")
    assert view.request == amounts(300, 100 * MIB)
    assert view.target == target
    assert view.differences() == {Resource.CPU: -150, Resource.MEMORY: 100 * MIB}


def test_a_container_that_nobody_knows_yet_is_shown_as_it_is() -> None:
    (view,) = _survey([an_autoscaler(recommendation=None)], [_pod("a", 100)])

    assert (view.target, view.lower, view.upper) == ({}, {}, {})
    assert view.request == amounts(100, 100 * MIB)
    assert view.differences() == {}


def test_a_recommendation_without_pods_is_shown_and_so_is_an_autoscaler_without_both() -> None:
    known = an_autoscaler(recommendation=(a_recommendation(target=amounts(cpu=5)),))
    bare = an_autoscaler(name="bare", recommendation=None)
    views = _survey([known, bare], [])

    assert [(each.autoscaler.name, each.container, each.pods) for each in views] == [
        ("bare", "", 0),
        (known.name, "app", 0),
    ]


def test_each_pod_counts_for_the_autoscaler_of_its_role() -> None:
    leader, follower = (
        an_autoscaler(name=role, selector=Selector((equality("role", role),)))
        for role in ("leader", "follower")
    )
    pods = [
        _pod("a", 900, labels={"role": "leader"}),
        _pod("b", 100, labels={"role": "follower"}),
        _pod("c", 100, labels={"role": "follower"}),
        _pod("d", 500, labels={}),
    ]
    views = _survey([leader, follower], pods)

    shown = {each.autoscaler: (each.pods, each.request[Resource.CPU]) for each in views}
    assert shown == {
        AutoscalerName("default", "follower"): (2, 100),
        AutoscalerName("default", "leader"): (1, 900),
    }
