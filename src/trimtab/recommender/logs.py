"""Log events of the recommender: one for each decision, and one for each tick."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from trimtab.api.wire import quantities
from trimtab.core.recommendation import status_changes
from trimtab.core.recommendation.status_changes import StatusText
from trimtab.recommender.reports import Problem, SignalReport, Step, TickReport, TickResult
from trimtab.recommender.state import RecommenderState, WrittenStatus

MOST_PROBLEMS: Final = 20
"""Maximum number of problems logged for each step of a tick; the rest is counted."""

_logger: Final = structlog.stdlib.get_logger(__name__)


def log_tick(result: TickResult, state: RecommenderState) -> None:
    """Log the decisions of a tick, one by one."""
    if result.report is None:
        # The loop has logged the failure with its traceback.
        return
    if not result.report.spans:
        _logger.debug("waiting for the first lists")
        return
    for subject in state.subjects.values():
        if subject.written is not None and subject.written.at >= result.at:
            _log_status(subject.written)
    for signal in result.report.signals:
        _log_signal(signal)
    _log_problems(result.report.problems)
    _log_tick_report(result.report)


def log_saving(report: TickReport) -> None:
    """Log the checkpoints saved before the process ends."""
    for problem in report.problems:
        _logger.warning("checkpoint not saved", about=problem.about, error=str(problem.error))
    unsaved = report.checkpoints_left + len(report.problems)
    if unsaved:
        _logger.warning("checkpoints unsaved", unsaved=unsaved)
    _logger.info("checkpoints saved", written=report.checkpoints_written, unsaved=unsaved)


def log_history(namespaces: int, conventions: Mapping[str, str]) -> None:
    """Log that history was read, and the label conventions found there."""
    _logger.info("history read", namespaces=namespaces, **conventions)


def _log_problems(problems: Sequence[Problem]) -> None:
    seen: Counter[Step] = Counter()
    for problem in problems:
        seen[problem.step] += 1
        if seen[problem.step] <= MOST_PROBLEMS:
            _logger.warning(
                "step incomplete", step=problem.step, about=problem.about, error=str(problem.error)
            )
    for step, count in seen.items():
        if count > MOST_PROBLEMS:
            _logger.warning("step incomplete", step=step, left_out=count - MOST_PROBLEMS)


def _log_signal(report: SignalReport) -> None:
    signal = report.signal
    before, after = (
        quantities.encode_amounts({report.resource: int(amount)})[report.resource]
        for amount in (signal.before, signal.after)
    )
    _logger.info(
        "target raised under pressure",
        autoscaler=f"{report.autoscaler.namespace}/{report.autoscaler.name}",
        container=report.container,
        pod=report.pod,
        kind=signal.kind,
        strength=round(signal.strength, 2),
        resource=report.resource,
        before=before,
        after=after,
    )


def _log_status(written: WrittenStatus) -> None:
    autoscaler = f"{written.over.namespace}/{written.over.name}"
    targets = _targets(written.status)
    if targets == _targets(status_changes.stored_status(written.over)):
        _logger.debug("status published", autoscaler=autoscaler)
    else:
        _logger.info("recommendation published", autoscaler=autoscaler, targets=targets)


def _targets(status: StatusText) -> dict[str, dict[str, str]]:
    return {
        one.container_name: quantities.encode_amounts(one.target) for one in status.recommendation
    }


def _log_tick_report(report: TickReport) -> None:
    _logger.info(
        "tick done",
        autoscalers=report.autoscalers,
        pods=report.pods,
        cpu_samples=report.cpu.accepted,
        memory_samples=report.memory.accepted,
        oom_kills=report.oom_kills.accepted,
        past_samples=report.past_cpu.accepted + report.past_memory.accepted,
        published=report.published,
        held_back=report.held_back,
        restored=report.restored,
        checkpoints_written=report.checkpoints_written,
        checkpoints_refused=report.checkpoints_refused,
        checkpoints_left=report.checkpoints_left,
        checkpoints_deleted=report.checkpoints_deleted,
        seconds=round(sum(span.total_seconds() for _, span in report.spans), 3),
    )
