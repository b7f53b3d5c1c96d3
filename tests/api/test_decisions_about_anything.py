"""Whatever decodes can be decided about: no plan and no patch falls over it (F28)."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.makers.damage import LEAVES, VALUES, Place, places, replaced
from support.makers.plans import share_wanting_change
from support.makers.records import NOW
from support.makers.wire_examples import AUTOSCALER, LIMIT_RANGE, POD, Json

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.core.changes.outcomes import Resize, Unboost
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.resize_patch import resize_patch
from trimtab.core.sizing.startup_boost import BoostError, annotation_name
from trimtab.core.updates.plan import plan
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

RecordT = TypeVar("RecordT")

WEB = WorkloadName("default", "Deployment", "web")
REPLICA_SET = WorkloadName("default", "ReplicaSet", "web-1")
ORIGINALS = ['{"requests":{"cpu":"50m","memory":"1Mi"},"limits":{"cpu":"60m"}}', "{}", "}", ""]
# Nothing under way, or hardly anything would be decided.
AT_REST = replaced(POD, ("status", "conditions", 1, "status"), "False")
ACTING = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
MOMENTS = [
    NOW,
    NOW,
    datetime(2026, 8, 1, 0, 10, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]
TELLING = st.sampled_from(
    [
        *("0", "-5m", "1m", "100m", "9223372036854775807", "-9223372036854775808", "1e30", 0, -1),
        *("Deferred", "Infeasible", "Error", "Pending", "Running", "OOMKilled", "RestartContainer"),
        *("RequestsOnly", "Auto", "Off", "Quantity", "Factor", "*", "app", "proxy", "Pod"),
        *("UsageStale", "PodResizePending", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
        *({}, {"cpu": "0"}, {"memory": "-1"}, {"cpu": "1", "memory": "9Ei"}, []),
    ]
)


@st.composite
def decodable(
    draw: st.DrawFn, decode: Callable[[bytes], RecordT], example: Json, spots: list[Place]
) -> RecordT:
    """A record of the example with up to four parts replaced, as far as that still decodes."""
    record, document = decode(json.dumps(example).encode()), example
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.sampled_from(spots))
        with suppress(DecodeError, LookupError, TypeError):
            changed = replaced(document, place, draw(TELLING | LEAVES | VALUES))
            record, document = decode(json.dumps(changed).encode()), changed
    return record


def documents(decode: Callable[[bytes], RecordT], example: Json) -> st.SearchStrategy[RecordT]:
    return decodable(decode, example, places(example))


# What names an object stays, or nothing would belong together and nothing would be decided.
@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    found = draw(st.lists(documents(decode_pod, AT_REST), min_size=1, max_size=3))
    mark = annotation_name(draw(st.sampled_from(["app", "proxy", "gone"])))
    marked = {mark: draw(st.sampled_from(ORIGINALS) | st.text(max_size=20))}
    return [
        structs.replace(
            pod,
            namespace="default",
            name=f"web-{number}",
            uid=f"uid-{number}",
            annotations={**pod.annotations, **(marked if draw(st.booleans()) else {})},
        )
        for number, pod in enumerate(found)
    ]


@st.composite
def autoscalers(draw: st.DrawFn) -> Autoscaler:
    found = draw(documents(decode_autoscaler, AUTOSCALER))
    sample = decode_autoscaler(json.dumps(AUTOSCALER).encode())
    return replace(
        found,
        namespace="default",
        target=sample.target,
        selector=None,
        mode=draw(st.sampled_from([*UpdateMode, *ACTING])),
        min_replicas=draw(st.sampled_from([found.min_replicas, 0])),
    )


limit_ranges = st.lists(documents(decode_limit_range, LIMIT_RANGE), max_size=2).map(
    lambda found: [item for items in found for item in items]
)
gates = st.just(FeatureGates()) | st.builds(FeatureGates, *[st.booleans()] * 5)


@settings(max_examples=100)
@given(st.data())
def test_f28_a_plan_can_be_made_about_whatever_decodes(data: st.DataObject) -> None:
    found, governor = data.draw(pods()), data.draw(autoscalers())
    snapshot = Snapshot(
        pods=[ObservedPod(pod, WEB) for pod in found],
        autoscalers=[ObservedAutoscaler(governor, Selector())],
        limit_ranges={"default": data.draw(limit_ranges)},
        configured_replicas={REPLICA_SET: data.draw(st.sampled_from([1, 2, 3, 4, 0, -1]))},
        usual_shares=data.draw(st.sampled_from([{}, {"default": 0.0}])),
    )
    chosen = PlanSettings(gates=data.draw(gates), surge_min_pods=3)
    outcomes = plan(snapshot, chosen, data.draw(st.sampled_from(MOMENTS)))
    changes = [each for each in outcomes if isinstance(each, Resize | Unboost)]
    patches = [resize_patch(each.pod, each.wanted) for each in changes]

    assert len({each.pod.name for each in outcomes}) == len(outcomes)
    assert 0 <= share_wanting_change(outcomes) <= 1
    assert len(patches) == len(changes)


@settings(max_examples=100)
@given(st.data())
def test_f28_whatever_decodes_is_admitted_or_refused_by_a_typed_error(data: st.DataObject) -> None:
    pod, governor = data.draw(pods())[0], data.draw(autoscalers())
    chosen, items = data.draw(gates), data.draw(limit_ranges)

    with suppress(BoostError):
        assert admission_patch(pod, governor, gates=chosen, limit_ranges=items) is not None
