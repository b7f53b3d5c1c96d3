"""Targets: which pods an autoscaler is for, and what it means that this cannot be told.

Looking for the workload that a target names is left to those who can see owners; here it is said
what the answer is worth.
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
    """The selector of an autoscaler's pods: the target's and its own together.

    The workload is what was found under the target's name, and `topmost` what owns that in the end.
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
    """Whom an autoscaler learns from now, given the selector that it last learned by.

    A target that cannot be found or checked is most often back a moment later (F2), so its pods
    are still believed to be its own. A configuration that is wrong matches no pod.
    """
    match verdict:
        case Selector():
            return verdict
        case Unsupported(UnsupportedReason.TARGET_UNREADABLE | UnsupportedReason.TARGET_UNCHECKED):
            return last_known
        case Unsupported():
            return None
