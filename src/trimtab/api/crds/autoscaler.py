"""The OpenAPI schema of the VerticalPodAutoscaler, v1 and v1beta2."""

from typing import Final

from trimtab.api.crds.schema import (
    Schema,
    array,
    duration,
    integer,
    mapping,
    object_schema,
    quantities,
    quantity,
    record,
    text,
    timestamp,
)
from trimtab.core.model import size_bounds
from trimtab.core.model.autoscalers import (
    BoostType,
    ChangeDirection,
    ContainerMode,
    ControlledValues,
    UpdateMode,
)
from trimtab.core.model.selectors import Operator

_MODES_V1BETA2: Final = (
    UpdateMode.OFF,
    UpdateMode.INITIAL,
    UpdateMode.RECREATE,
    UpdateMode.AUTO,
)
_MODES: Final = (
    UpdateMode.OFF,
    UpdateMode.INITIAL,
    UpdateMode.RECREATE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.IN_PLACE,
    UpdateMode.AUTO,
    UpdateMode.UPSCALE_ONLY,
)

_FACTOR_RULE: Final = "factor is required when type is Factor and forbidden otherwise"
_QUANTITY_RULE: Final = "quantity is required when type is Quantity and forbidden otherwise"
_TIME_RULE: Final = "duration and durationSeconds must be equal when both are given"
_BOOST_RULES: Final = {
    _FACTOR_RULE: "(self.type == 'Factor') == has(self.factor)",
    _QUANTITY_RULE: "(self.type == 'Quantity') == has(self.quantity)",
    # Comparing durations as such would cost more than an API server grants to a rule.
    _TIME_RULE: "!has(self.duration) || !has(self.durationSeconds)"
    " || self.duration.getMilliseconds() == self.durationSeconds * 1000",
}


def autoscaler_schema() -> Schema:
    """Return the schema of version v1."""
    return object_schema(
        "Sets the CPU and memory requests of the pods of one workload to what they use.",
        spec=_spec(),
        status=_status(),
        required=["spec"],
    )


def autoscaler_schema_v1beta2() -> Schema:
    """Return the schema of version v1beta2, which only exists for old stored objects."""
    policy = record(
        "How one container may be scaled.",
        {
            "containerName": text("Name of the container, or `*` for all without their own entry."),
            "maxAllowed": quantities("The most that may be recommended."),
            "minAllowed": quantities("The least that may be recommended."),
            "mode": text("Whether the container is scaled.", choices=ContainerMode),
        },
    )
    spec = record(
        "What is scaled, and how.",
        {
            "resourcePolicy": _resource_policy(policy),
            "targetRef": _target_ref(),
            "updatePolicy": record(
                "How recommendations reach the pods.",
                {"updateMode": text("When pods are changed.", choices=_MODES_V1BETA2)},
            ),
        },
        required=["targetRef"],
    )
    return object_schema(
        "Sets the CPU and memory requests of the pods of one workload to what they use.",
        spec=spec,
        status=_status(),
        required=["spec"],
    )


def _spec() -> Schema:
    return record(
        "What is scaled, and how.",
        {
            "recommenders": array(
                "The recommender in charge of this object, at most one. Without it the one named"
                " `default` is.",
                record(
                    "A recommender.",
                    {
                        "name": text(
                            "Name of the recommender.", longest=size_bounds.MAX_NAME_CHARACTERS
                        )
                    },
                    required=["name"],
                ),
                most=size_bounds.MAX_RECOMMENDERS,
            ),
            "resourcePolicy": _resource_policy(_container_policy(), most=size_bounds.MAX_POLICIES),
            "selector": _selector(),
            "startupBoost": _startup_boost(
                "Extra CPU while pods start, for every container without a boost of its own."
            ),
            "targetRef": _target_ref(is_bounded=True),
            "updatePolicy": _update_policy(),
        },
        required=["targetRef"],
    )


def _target_ref(*, is_bounded: bool = False) -> Schema:
    name, version = size_bounds.MAX_NAME_CHARACTERS, size_bounds.MAX_KEY_CHARACTERS
    longest_name, longest_version = (name, version) if is_bounded else (None, None)
    return record(
        "The workload whose pods are scaled: a Deployment, StatefulSet, DaemonSet, Job or anything"
        " else with a scale subresource. It must not itself be owned by another workload.",
        {
            "apiVersion": text("API version of the workload.", longest=longest_version),
            "kind": text("Kind of the workload.", longest=longest_name),
            "name": text("Name of the workload.", longest=longest_name),
        },
        required=["kind", "name"],
        atomic=True,
    )


def _selector() -> Schema:
    expression = record(
        "What one label must be like.",
        {
            "key": text("The label's key.", longest=size_bounds.MAX_KEY_CHARACTERS),
            "operator": text(f"How the label is looked at: {', '.join(Operator)}."),
            "values": array(
                "The values of In and NotIn; empty for the other operators.",
                {"maxLength": size_bounds.MAX_VALUE_CHARACTERS, "type": "string"},
                atomic=True,
                most=size_bounds.MAX_VALUES,
            ),
        },
        required=["key", "operator"],
    )
    return record(
        "Restricts the object to those pods of the target that carry fitting labels. Several"
        " objects may share a target if their selectors cannot match the same pod. Leave it out to"
        " select all pods of the target.",
        {
            "matchExpressions": array(
                "All of these must hold.", expression, atomic=True, most=size_bounds.MAX_EXPRESSIONS
            ),
            "matchLabels": mapping(
                "Labels that a pod must carry.",
                {"maxLength": size_bounds.MAX_VALUE_CHARACTERS, "type": "string"},
                most=size_bounds.MAX_EXPRESSIONS,
            ),
        },
        atomic=True,
    )


def _update_policy() -> Schema:
    requirement = record(
        "A condition that holds when at least one of its resources changes in its direction.",
        {
            "changeRequirement": text("The direction of the change.", choices=ChangeDirection),
            "resources": array(
                "cpu, memory or both; every resource may stand in one requirement only.",
                {"maxLength": size_bounds.MAX_NAME_CHARACTERS, "type": "string"},
                most=size_bounds.MAX_REQUIREMENTS,
            ),
        },
        required=["changeRequirement", "resources"],
    )
    return record(
        "How recommendations reach the pods. Without it the mode is Recreate.",
        {
            "evictAfterOOMSeconds": integer(
                "A container that runs out of memory within so many seconds of its start lets its"
                " pod be changed at once (feature gate PerVPAConfig).",
                minimum=1,
            ),
            "evictionRequirements": array(
                "All of these must hold before a running pod is changed.",
                requirement,
                most=size_bounds.MAX_REQUIREMENTS,
            ),
            "minReplicas": integer(
                "Pods of a workload with fewer live replicas are not evicted. Without it the"
                " updater's flag decides."
            ),
            "updateMode": text(
                "When pods are changed. Off: never. Initial: when they are created. Recreate: by"
                " eviction. InPlaceOrRecreate: while they run, else by eviction. InPlace: only"
                " while they run. UpscaleOnly: only if they grow. Auto is an old name of Recreate.",
                choices=_MODES,
            ),
        },
    )


def _resource_policy(container_policy: Schema, *, most: int | None = None) -> Schema:
    return record(
        "How the containers may be scaled. Without it nothing is restricted.",
        {"containerPolicies": array("One entry per container.", container_policy, most=most)},
    )


def _container_policy() -> Schema:
    return record(
        "How one container may be scaled.",
        {
            "containerName": text(
                "Name of the container, or `*` for all without their own entry.",
                longest=size_bounds.MAX_NAME_CHARACTERS,
            ),
            "controlledResources": array(
                "What is recommended: cpu, memory, both (the default) or, with an empty list,"
                " nothing.",
                text("Name of a resource.", longest=size_bounds.MAX_KEY_CHARACTERS),
                most=size_bounds.MAX_RESOURCES,
            ),
            "controlledValues": text(
                "Whether limits follow the requests (the default) or stay as they are.",
                choices=ControlledValues,
            ),
            "maxAllowed": quantities(
                "The most that may be recommended.", most=size_bounds.MAX_RESOURCES
            ),
            "memoryAggregationIntervalCount": integer(
                "How many memory peaks make up the history (feature gate PerVPAConfig).",
                form="int64",
                minimum=1,
            ),
            "memoryAggregationIntervalSeconds": integer(
                "The span of which the memory peak is kept (feature gate PerVPAConfig).", minimum=1
            ),
            "minAllowed": quantities(
                "The least that may be recommended.", most=size_bounds.MAX_RESOURCES
            ),
            "mode": text("Whether the container is scaled; Auto means yes.", choices=ContainerMode),
            "oomBumpUpRatio": quantity(
                "Memory seen when the container ran out of it is multiplied by this, at least 1"
                " (feature gate PerVPAConfig)."
            ),
            "oomMinBumpUp": quantity(
                "Memory seen when the container ran out of it is raised by at least this"
                " (feature gate PerVPAConfig)."
            ),
            "startupBoost": _startup_boost(
                "Extra CPU while the container starts; replaces the general boost as a whole."
            ),
        },
    )


def _startup_boost(description: str) -> Schema:
    cpu = record(
        "How much CPU is added and for how long.",
        {
            "duration": duration(
                "How long the boost outlasts the moment when the pod becomes ready, such as 1m30s."
                " Another spelling of durationSeconds."
            ),
            "durationSeconds": integer(
                "How many seconds the boost outlasts the moment when the pod becomes ready."
                " Without it the boost ends at that moment."
            ),
            "factor": integer("For type Factor: what the CPU is multiplied by, at least 1."),
            "quantity": quantity("For type Quantity: how much CPU is added."),
            "type": text("What the boost is given as.", choices=BoostType),
        },
        required=["type"],
        rules=_BOOST_RULES,
    )
    return record(f"{description} Needs the feature gate CPUStartupBoost.", {"cpu": cpu})


def _status() -> Schema:
    return record(
        "What the recommender found out.",
        {
            "conditions": array("What is the case with this object.", _condition()),
            "observedGeneration": integer(
                "The generation of the object that this status is about.", form="int64", minimum=0
            ),
            "recommendation": record(
                "The latest recommendation.",
                {"containerRecommendations": array("One per container.", _recommendation())},
            ),
        },
    )


def _condition() -> Schema:
    return record(
        "One fact about the object.",
        {
            "lastTransitionTime": timestamp("When the status last changed."),
            "message": text("The details, for people."),
            "observedGeneration": integer(
                "The generation of the object that this condition is about.",
                form="int64",
                minimum=0,
            ),
            "reason": text("The reason, for programs."),
            "status": text("True, False or Unknown."),
            "type": text("What the condition is about."),
        },
        required=["status", "type"],
    )


def _recommendation() -> Schema:
    return record(
        "What one container should request.",
        {
            "containerName": text("Name of the container."),
            "lowerBound": quantities("Below this the container is likely short of resources."),
            "target": quantities("The recommended requests."),
            "uncappedTarget": quantities("The target before any policy was applied."),
            "upperBound": quantities("Above this resources are likely wasted."),
        },
        required=["target"],
    )
