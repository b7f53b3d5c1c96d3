import pytest
from support.makers.records import a_pod, an_autoscaler

from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.selectors import Selector, equality
from trimtab.core.model.workloads import Workload
from trimtab.core.report.virtual_autoscalers import Group, Owned, group_pods, list_virtual_workloads

_SELECTOR = Selector((equality("app", "web"),))
_WEB = Workload(WorkloadName("default", "Deployment", "web"), selector=_SELECTOR)


def _web(name: str, **labels: str) -> Owned:
    return Owned(a_pod(name=name, labels={"app": "web", **labels}), _WEB, "apps/v1")


def _alone(pod: Pod, *others: Pod) -> list[Group]:
    return group_pods([Owned(each, None) for each in (pod, *others)], [])


def test_pods_of_a_workload_without_an_autoscaler_share_a_shadow() -> None:
    (group,) = group_pods([_web("a"), _web("b")], [])

    assert group.is_shadowed
    assert (group.workload, group.api_version) == (_WEB.name, "apps/v1")
    assert [pod.name for pod in group.pods] == ["a", "b"]
    assert list_virtual_workloads([group]) == {_WEB.name: Workload(_WEB.name, selector=_SELECTOR)}
    assert group.autoscaler.target is not None
    assert group.autoscaler.target.name == "web"


def test_pods_are_grouped_by_who_governs_them() -> None:
    leaders = an_autoscaler(name="leaders", selector=Selector((equality("role", "leader"),)))
    observed = [ObservedAutoscaler(leaders, _SELECTOR)]
    groups = group_pods([_web("a", role="leader"), _web("b")], observed)

    assert [(group.is_shadowed, group.pods[0].name) for group in groups] == [
        (True, "b"),
        (False, "a"),
    ]
    assert groups[1].autoscaler is leaders


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(None, ("Pod", "one"), id="a pod that nobody owns is on its own"),
        pytest.param(OwnerReference("Node", "n"), ("Pod", "one"), id="and one of a node's file"),
        pytest.param(
            OwnerReference("PodSet", "set"), ("PodSet", "set"), id="an owner that cannot be scaled"
        ),
    ],
)
def test_pods_without_a_scalable_workload_are_told_apart_by_a_label_of_ours(
    owner: OwnerReference | None, expected: tuple[str, str]
) -> None:
    (group,) = _alone(a_pod(name="one", owner=owner, labels={}))

    assert (group.workload.kind, group.workload.name) == expected
    assert group.selector is not None
    assert group.selector.matches(group.pods[0].labels)
    assert not group.selector.matches({})


def test_a_workload_that_selects_everything_gets_only_its_own_pods() -> None:
    greedy = Workload(WorkloadName("default", "CronJob", "all"), selector=Selector())
    (group,) = group_pods([Owned(a_pod(), greedy, "batch/v1")], [])

    assert group.selector is not None
    assert not group.selector.matches(a_pod().labels)
    assert group.selector.matches(group.pods[0].labels)
