"""What pods request, and what acts have freed and added, as metrics."""

import pytest
from prometheus_client import REGISTRY
from support.makers.records import MIB, a_container, a_pod, amounts

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Hold, Resize
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resources
from trimtab.updater.boost_metrics import SizeMeter

WEB = AutoscalerName("default", "web")
POD = a_pod(containers=(a_container("app", requests=amounts(500, 100 * MIB)), a_container("side")))
CHANGE = Change(scale_up=True, outside_bounds=True, relative_difference=1.0)


def wanting(requests: Resources) -> dict[str, Allocation]:
    return {"app": Allocation(requests)}


def an_eviction(requests: Resources) -> Evict:
    return Evict(POD, WEB, CHANGE, wanted=wanting(requests))


def read(name: str, resource: str, unit: str, **labels: str) -> float:
    found = {"resource": resource, "unit": unit, **labels}
    return REGISTRY.get_sample_value(f"vpa_updater_{name}", found) or 0.0


def cores(name: str, **labels: str) -> float:
    return read(name, "cpu", "core", **labels)


@pytest.mark.parametrize(
    ("outcome", "then"),
    [
        pytest.param(an_eviction(amounts(1500)), 1.5, id="an eviction"),
        pytest.param(Resize(POD, WEB, wanting(amounts(200)), CHANGE), 0.2, id="a resize"),
        pytest.param(Hold(POD, WEB, HoldReason.INSIDE_BOUNDS), 0.5, id="nothing to change"),
        pytest.param(
            Hold(POD, WEB, HoldReason.PAUSED, withheld=an_eviction(amounts(1500))),
            1.5,
            id="an eviction that is held",
        ),
        pytest.param(
            Hold(POD, WEB, HoldReason.COOL_DOWN, wanted=wanting(amounts(200))),
            0.2,
            id="a pod that wants less and waits",
        ),
    ],
)
def test_a_plan_shows_what_is_requested_now_and_what_would_be(
    outcome: Evict | Resize | Hold, then: float
) -> None:
    SizeMeter().show([outcome, outcome])

    assert cores("requests") == pytest.approx(1.0)
    assert cores("wanted_requests") == pytest.approx(2 * then)
    assert read("wanted_requests", "memory", "byte") == 200 * MIB


def test_what_is_done_counts_as_freed_and_added_resource_by_resource() -> None:
    meter = SizeMeter()
    freed, added = (cores("requests_changed_total", direction=way) for way in ("freed", "added"))
    grown = read("requests_changed_total", "memory", "byte", direction="added")
    meter.count(an_eviction(amounts(100, 300 * MIB)))
    meter.count(Resize(POD, WEB, wanting(amounts(750)), CHANGE))

    assert cores("requests_changed_total", direction="freed") - freed == pytest.approx(0.4)
    assert cores("requests_changed_total", direction="added") - added == pytest.approx(0.25)
    memory = read("requests_changed_total", "memory", "byte", direction="added")
    assert memory - grown == 200 * MIB
