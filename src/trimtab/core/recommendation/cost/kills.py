"""OOM kills: steps of a held target, which grow while kills go on."""

from dataclasses import dataclass

import numpy as np

from trimtab.core.model.estimation import CostSettings
from trimtab.core.recommendation.cost.held_columns import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class Kill:
    """An OOM kill of a container."""

    limit: float
    """The memory that was not enough: the limit, or without one the memory in use."""
    request: float
    time: float
    pod: int

    @property
    def ratio(self) -> float:
        """The limit as a multiple of the request.

        The limit is what the kernel enforced. It follows the request in proportion, so the request
        to set is what the limit should be, divided by this.
        """
        return self.limit / self.request if 0 < self.request < self.limit else 1.0


def count_kill(record: np.void, kill: Kill, settings: CostSettings) -> float:
    """Count a kill for a row, and return the limit that the next step asks for."""
    is_repeated = kill.time - record["last_kill"] <= settings.oom_repeat.total_seconds()
    if not is_repeated:
        record["kills"] = 0
    # A second pod killed at the same limit is no news; one killed at a higher limit says that
    # the last step was too small.
    elif kill.limit > record["kill_limit"]:
        record["kills"] = min(record["kills"] + 1, settings.most_oom_doublings)
    # 2, then 3 and 5 times the limit for kills in a row.
    step = 1 + (settings.oom_step - 1) * 2.0 ** int(record["kills"])
    record["last_kill"] = max(float(record["last_kill"]), kill.time)
    record["kill_limit"] = max(kill.limit, record["kill_limit"] if is_repeated else 0.0)
    return max(kill.limit * step, kill.limit + settings.oom_step_bytes)


def raise_target(record: np.void, kill: Kill, wanted: float, settings: CostSettings) -> None:
    """Raise the target of a row after a kill, so that its limit becomes what is wanted."""
    new = wanted
    if kill.ratio > 1:
        new = min(wanted, max(wanted / kill.ratio, kill.request * settings.oom_loose_step))
    record["most_needed"] = max(float(record["most_needed"]), new)
    # False while `held` is NaN, before the first sample.
    if new <= float(record["held"][MEMORY]):
        return
    record["held"][MEMORY] = new
    record["changed"][MEMORY] = max(kill.time, float(record["now"]))
    record["is_raised"][MEMORY] = True
    # The step is a guess. It is corrected early if usage stays below (`tried_gap`).
    record["is_tried"] = True
    record["short_since"] = np.nan
    # The pod is changed now in any case: take what CPU is waiting for along.
    if record["cpu_target"] > record["held"][CPU]:
        record["held"][CPU] = record["cpu_target"]
        record["changed"][CPU] = record["changed"][MEMORY]
        record["is_raised"][CPU] = True
