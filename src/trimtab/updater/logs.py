"""The updater's log: an event for each new decision, each act, and each tick."""

from collections.abc import Iterable
from typing import Final, assert_never

import structlog

from trimtab.core.changes.outcomes import Act, Hold, Outcome, Unboost
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import WANTS_CHANGE
from trimtab.updater.actions import ActResult
from trimtab.updater.pages import encode_wanted
from trimtab.updater.reports import (
    Acted,
    HeldWhileActing,
    News,
    PlanMade,
    TickFailed,
    ViewNotReady,
    count_kinds,
)

_DROPPED: Final = frozenset({ActResult.WITHDRAWN, ActResult.OUTDATED})
_TOLD_AS_HOLD: Final = frozenset({ActResult.PROTECTED})

_logger: Final = structlog.stdlib.get_logger(__name__)


def log_report(news: News, changed: Iterable[Outcome]) -> None:
    """Log a report, with the decisions that it has changed."""
    for outcome in changed:
        _tell_of_decision(outcome)
    match news:
        case Acted():
            _tell_of_act(news)
        case PlanMade(is_all=True):
            _tell_of_tick(news)
        case ViewNotReady():
            _logger.info("nothing planned: the view of the cluster is old or not complete")
        case PlanMade() | HeldWhileActing() | TickFailed():
            # The loop itself has logged the failed turn, with a traceback.
            pass
        case _:
            assert_never(news)


def _tell_of_decision(outcome: Outcome) -> None:
    if not isinstance(outcome, Hold):
        _logger.info("act planned", **_deed(outcome))
        return
    told = {**_subject(outcome), "reason": outcome.reason.value}
    if outcome.withheld is not None:
        told["withheld"] = type(outcome.withheld).__name__
    # Most pods need no change, and an entry for each would hide the others.
    log = _logger.info if outcome.reason in WANTS_CHANGE else _logger.debug
    log("pod held", **told)


def _tell_of_act(acted: Acted) -> None:
    act, result = acted.task.act, acted.result
    told = _deed(act)
    if result is ActResult.DONE:
        _logger.info("act done", **told, wanted=encode_wanted(act.wanted))
    elif result in _DROPPED:
        _logger.debug("act dropped", **told, result=result.value)
    elif result not in _TOLD_AS_HOLD:
        _logger.warning("act failed", **told, result=result.value, error=str(acted.error))


def _tell_of_tick(planned: PlanMade) -> None:
    kinds = count_kinds(planned.outcomes)
    _logger.info(
        "tick done",
        autoscalers=len(planned.autoscalers),
        pods=len(planned.outcomes),
        evictions=kinds["Evict"],
        resizes=kinds["Resize"],
        unboosts=kinds["Unboost"],
        holds=kinds["Hold"],
        seconds=round(sum(span.total_seconds() for _, span in planned.spans), 3),
    )


def _deed(act: Act) -> dict[str, str | None]:
    """Return the act and its pod, and the cause if it ends a boost."""
    told = {"act": type(act).__name__, **_subject(act)}
    return {**told, "cause": act.cause.value} if isinstance(act, Unboost) else told


def _subject(outcome: Outcome) -> dict[str, str | None]:
    pod = outcome.pod
    return {"pod": f"{pod.namespace}/{pod.name}", "autoscaler": _full_name(outcome.autoscaler)}


def _full_name(name: AutoscalerName | None) -> str | None:
    return None if name is None else f"{name.namespace}/{name.name}"
