"""Size classes: each workload is in one of CPU and in one of memory."""

from datetime import UTC, datetime

import pytest

from trimtab.backtest.demand import Demand, gather
from trimtab.backtest.sizes import size_classes
from trimtab.simulation.load.traces import Recording
from trimtab.simulation.world.loads import Trace

_MIB = 1024.0**2


def _demand(*needs: tuple[float, float]) -> Demand:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    return gather(
        [
            # A rare peak is above the percentile, and does not count.
            Recording(
                str(number),
                start,
                Trace((cpu,) * 99 + (9e4,), (memory * _MIB,) * 99 + (9e4 * _MIB,)),
            )
            for number, (cpu, memory) in enumerate(needs)
        ]
    )


@pytest.mark.parametrize(
    ("cpu", "memory", "names"),
    [
        pytest.param(99, 255, ["CPU < 100m", "memory < 256Mi"], id="small"),
        pytest.param(100, 256, ["CPU 100m to 1", "memory 256Mi to 1Gi"], id="lower bounds"),
        pytest.param(1000, 1024, ["CPU >= 1", "memory 1Gi to 4Gi"], id="one core"),
        pytest.param(8000, 4096, ["CPU >= 1", "memory >= 4Gi"], id="large"),
    ],
)
def test_the_usual_need_decides_the_class(cpu: float, memory: float, names: list[str]) -> None:
    assert [each.name for each in size_classes(_demand((cpu, memory)))] == names


def test_every_workload_is_in_one_class_of_each_resource() -> None:
    classes = size_classes(_demand((50, 100), (50, 5000), (3000, 100)))
    found = {each.name: each.workloads.tolist() for each in classes}

    assert found == {
        "CPU < 100m": [0, 1],
        "CPU >= 1": [2],
        "memory < 256Mi": [0, 2],
        "memory >= 4Gi": [1],
    }
