"""Recommendations as metrics, by the names and labels that kube-state-metrics once had.

There is one series per container, resource and kind of amount. That is much in a large cluster, so
the exporter is optional. The values come from the objects at the time of the scrape.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation, UpdateMode
from trimtab.core.model.resources import Resource, Resources

_PREFIX: Final = "kube_verticalpodautoscaler_"
_OBJECT: Final = (
    *("namespace", "verticalpodautoscaler"),
    *("target_api_version", "target_kind", "target_name"),
)
_AMOUNT: Final = (*_OBJECT, "container", "resource", "unit")
_UNITS: Final = {Resource.CPU: ("core", 1000), Resource.MEMORY: ("byte", 1)}
_ESTIMATES: Final[dict[str, Callable[[ContainerRecommendation], Resources | None]]] = {
    "target": lambda one: one.target,
    "lowerbound": lambda one: one.lower_bound,
    "upperbound": lambda one: one.upper_bound,
    "uncappedtarget": lambda one: one.uncapped_target,
}


class RecommendationExporter(Collector):
    """Exports the recommendations of autoscalers; the caller registers it."""

    def __init__(self, autoscalers: Iterable[Autoscaler]) -> None:
        self._autoscalers = autoscalers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all series at the time of the scrape."""
        autoscalers = list(self._autoscalers)
        for name, read in _ESTIMATES.items():
            yield _show_estimates(name, read, autoscalers)
        yield _show_policies("minallowed", autoscalers)
        yield _show_policies("maxallowed", autoscalers)
        yield _show_modes(autoscalers)


def _show_estimates(
    name: str,
    read: Callable[[ContainerRecommendation], Resources | None],
    autoscalers: Iterable[Autoscaler],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        f"{_PREFIX}status_recommendation_containerrecommendations_{name}",
        f"The {name} of a container's recommendation.",
        labels=_AMOUNT,
    )
    for autoscaler in autoscalers:
        for one in autoscaler.recommendation or ():
            _add(family, autoscaler, one.container_name, read(one))
    return family


def _show_policies(name: str, autoscalers: Iterable[Autoscaler]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        f"{_PREFIX}spec_resourcepolicy_container_policies_{name}",
        f"The {name} of a container's policy.",
        labels=_AMOUNT,
    )
    for autoscaler in autoscalers:
        for policy in autoscaler.policies:
            amounts = policy.min_allowed if name == "minallowed" else policy.max_allowed
            _add(family, autoscaler, policy.container_name, amounts)
    return family


def _show_modes(autoscalers: Iterable[Autoscaler]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        f"{_PREFIX}spec_updatepolicy_updatemode",
        "The update mode of an autoscaler: 1 for the one that it has, 0 for all others.",
        labels=(*_OBJECT, "update_mode"),
    )
    for autoscaler in autoscalers:
        for mode in UpdateMode:
            family.add_metric((*_object(autoscaler), mode.value), float(mode is autoscaler.mode))
    return family


def _add(
    family: GaugeMetricFamily, autoscaler: Autoscaler, container: str, amounts: Resources | None
) -> None:
    for resource, amount in (amounts or {}).items():
        unit, scale = _UNITS[resource]
        labels = (*_object(autoscaler), container, resource.value, unit)
        family.add_metric(labels, amount / scale)


def _object(autoscaler: Autoscaler) -> tuple[str, ...]:
    target = autoscaler.target
    named = ("", "", "") if target is None else (target.api_version, target.kind, target.name)
    return (autoscaler.namespace, autoscaler.name, *named)
