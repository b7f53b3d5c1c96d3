from dataclasses import replace

import pytest
from support.makers.records import an_autoscaler
from support.makers.usage import a_selector

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload
from trimtab.core.recommendation.conditions import Unsupported, UnsupportedReason
from trimtab.core.recommendation.targets import select_pods, selector_to_learn_by

WEB = WorkloadName("default", "Deployment", "web")
WORKLOAD = Workload(WEB, selector=a_selector(app="web"))
LEADERS = an_autoscaler(selector=a_selector(role="leader"))


@pytest.mark.parametrize(
    ("autoscaler", "selector"),
    [
        pytest.param(an_autoscaler(), a_selector(app="web"), id="all pods of the target"),
        pytest.param(LEADERS, a_selector(app="web", role="leader"), id="some pods of the target"),
    ],
)
def test_both_selectors_together_say_which_pods_are_meant(
    autoscaler: Autoscaler, selector: Selector
) -> None:
    assert select_pods(autoscaler, WORKLOAD, WEB) == selector


@pytest.mark.parametrize(
    ("workload", "topmost", "reason"),
    [
        pytest.param(None, None, UnsupportedReason.TARGET_UNREADABLE, id="there is no target"),
        pytest.param(
            replace(WORKLOAD, selector=None),
            WEB,
            UnsupportedReason.TARGET_UNREADABLE,
            id="the target selects nothing",
        ),
        pytest.param(
            WORKLOAD, None, UnsupportedReason.TARGET_UNCHECKED, id="its owner is in doubt"
        ),
        pytest.param(
            WORKLOAD,
            WEB._replace(kind="Rollout"),
            UnsupportedReason.TARGET_NOT_TOPMOST,
            id="somebody owns the target",
        ),
    ],
)
def test_a_target_that_cannot_be_used_says_why(
    workload: Workload | None, topmost: WorkloadName | None, reason: UnsupportedReason
) -> None:
    verdict = select_pods(an_autoscaler(), workload, topmost)

    assert isinstance(verdict, Unsupported)
    assert verdict.reason is reason


def test_a_selector_selects_nothing_while_its_gate_is_off() -> None:
    off = Unsupported(UnsupportedReason.SELECTOR_DISABLED)

    assert select_pods(LEADERS, WORKLOAD, WEB, selectors_enabled=False) == off
    assert select_pods(an_autoscaler(), WORKLOAD, WEB, selectors_enabled=False) != off


@pytest.mark.parametrize(
    ("reason", "is_kept"),
    [
        pytest.param(UnsupportedReason.TARGET_UNREADABLE, True, id="the target is gone"),
        pytest.param(UnsupportedReason.TARGET_UNCHECKED, True, id="its owner is in doubt"),
        pytest.param(UnsupportedReason.TARGET_NOT_TOPMOST, False, id="it is owned"),
        pytest.param(UnsupportedReason.SELECTOR_DISABLED, False, id="the gate is off"),
    ],
)
def test_f2_only_doubt_leaves_an_autoscaler_the_pods_that_it_had(
    reason: UnsupportedReason, *, is_kept: bool
) -> None:
    last = a_selector(app="web")

    assert selector_to_learn_by(Unsupported(reason), last) == (last if is_kept else None)
    assert selector_to_learn_by(Unsupported(reason), None) is None
