"""Recommendations as metrics: the names and labels of kube-state-metrics."""

from prometheus_client import CollectorRegistry
from support.makers.records import MIB, amounts

from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerPolicy,
    ContainerRecommendation,
    TargetReference,
    UpdateMode,
)
from trimtab.recommender.status_metrics import RecommendationExporter

PREFIX = "kube_verticalpodautoscaler_"
OBJECT = {
    "namespace": "shop",
    "verticalpodautoscaler": "web",
    "target_api_version": "apps/v1",
    "target_kind": "Deployment",
    "target_name": "web",
}
WEB = Autoscaler(
    "shop",
    "web",
    target=TargetReference("Deployment", "web", "apps/v1"),
    mode=UpdateMode.OFF,
    policies=(ContainerPolicy("*", min_allowed=amounts(50, 64 * MIB)),),
    recommendation=(
        ContainerRecommendation(
            "app",
            target=amounts(182, 300 * MIB),
            lower_bound=amounts(25, 250 * MIB),
            upper_bound=amounts(1500, 900 * MIB),
            uncapped_target=amounts(190, 310 * MIB),
        ),
    ),
)


def registry(*autoscalers: Autoscaler) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(RecommendationExporter(autoscalers))
    return made


def read(made: CollectorRegistry, name: str, **labels: str) -> float | None:
    return made.get_sample_value(f"{PREFIX}{name}", OBJECT | labels)


def test_each_amount_of_a_recommendation_is_a_series_in_cores_or_bytes() -> None:
    made = registry(WEB)
    cpu = {"container": "app", "resource": "cpu", "unit": "core"}
    memory = {"container": "app", "resource": "memory", "unit": "byte"}
    prefix = "status_recommendation_containerrecommendations_"

    assert read(made, f"{prefix}target", **cpu) == 0.182
    assert read(made, f"{prefix}lowerbound", **cpu) == 0.025
    assert read(made, f"{prefix}upperbound", **cpu) == 1.5
    assert read(made, f"{prefix}uncappedtarget", **cpu) == 0.19
    assert read(made, f"{prefix}target", **memory) == 300 * MIB


def test_policies_and_the_update_mode_are_shown_beside_them() -> None:
    made = registry(WEB)
    cpu = {"container": "*", "resource": "cpu", "unit": "core"}
    policies = "spec_resourcepolicy_container_policies_"

    assert read(made, f"{policies}minallowed", **cpu) == 0.05
    assert read(made, f"{policies}maxallowed", **cpu) is None
    assert read(made, "spec_updatepolicy_updatemode", update_mode="Off") == 1
    assert read(made, "spec_updatepolicy_updatemode", update_mode="Recreate") == 0


def test_an_autoscaler_that_says_nothing_and_has_no_target_is_no_trouble() -> None:
    made = registry(Autoscaler("shop", "empty"))
    labels = dict.fromkeys(OBJECT, "") | {"namespace": "shop", "verticalpodautoscaler": "empty"}
    name = f"{PREFIX}spec_updatepolicy_updatemode"

    assert made.get_sample_value(name, labels | {"update_mode": "Recreate"}) == 1
