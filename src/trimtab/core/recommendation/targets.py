"""Targets: the pods that an autoscaler is for, and the reasons why a target cannot be used.

Callers that can see owners look up the workload that a target names; this module judges the result.
"""

from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload
from trimtab.core.recommendation.conditions import Unsupported, UnsupportedReason


def select_pods(
    autoscaler: Autoscaler,
    workload: Workload | None,
    topmost: WorkloadName | None,
    *,
    selectors_enabled: bool = True,
) -> Selector | Unsupported:
    """Return the selector of an autoscaler's pods: the target's and its own together.

    `workload` is the one found under the target's name, and `topmost` the one that owns it in the
    end.
    """
    own = autoscaler.selector
    if own is not None and not selectors_enabled:
        return Unsupported(UnsupportedReason.SELECTOR_DISABLED)
    if workload is None:
        return Unsupported(UnsupportedReason.TARGET_UNREADABLE)
    if workload.selector is None:
        return Unsupported(UnsupportedReason.TARGET_UNREADABLE, "it does not select any pods")
    if topmost is None:
        return Unsupported(UnsupportedReason.TARGET_UNCHECKED)
    if topmost != workload.name:
        return Unsupported(UnsupportedReason.TARGET_NOT_TOPMOST)
    requirements = workload.selector.requirements + (() if own is None else own.requirements)
    return Selector(requirements)


def selector_to_learn_by(
    verdict: Selector | Unsupported, last_known: Selector | None
) -> Selector | None:
    """Return the selector to learn by now, given the one that the autoscaler last learned by.

    A target that cannot be found or checked is usually back a moment later, so the autoscaler keeps
    its pods. A configuration that is wrong matches no pod.
    """
    match verdict:
        case Selector():
            return verdict
        case Unsupported(UnsupportedReason.TARGET_UNREADABLE | UnsupportedReason.TARGET_UNCHECKED):
            return last_known
        case Unsupported():
            return None
