"""Hypothesis strategies for records as odd as the API server may hand them out."""

from datetime import timedelta

from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    CpuBoost,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import OF_LIMIT_RANGES, LimitRangeItem
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resources

NAMES = ("app", "side", "log", "a/b~c", "")

amount = st.integers(0, 5) | st.integers(0, 10**10) | st.sampled_from([0, 2**31, MAX_AMOUNT])
resources: st.SearchStrategy[Resources] = st.dictionaries(st.sampled_from(BOTH), amount)
maybe_resources = st.none() | resources
signed_amount = amount | st.integers(-(10**6), -1) | st.just(-MAX_AMOUNT)
signed_resources: st.SearchStrategy[Resources] = st.dictionaries(
    st.sampled_from(BOTH), signed_amount
)
maybe_signed = st.none() | signed_resources
allocation = st.builds(Allocation, maybe_resources, maybe_resources)
signed_allocation = st.builds(Allocation, maybe_signed, maybe_signed)
moment = st.none() | st.integers(-(10**6), 10**6).map(lambda count: NOW + timedelta(seconds=count))
duration = st.none() | st.integers(-100, 2**31).map(lambda count: timedelta(seconds=count))


@st.composite
def sane_allocation(draw: st.DrawFn) -> Allocation:
    """What the API server accepts: no limit below its request."""
    requests = draw(resources)
    extra = draw(resources)
    limits = {kind: min(requests.get(kind, 0) + more, MAX_AMOUNT) for kind, more in extra.items()}
    return Allocation(requests or None, limits or None)


@st.composite
def pod(draw: st.DrawFn, spec: st.SearchStrategy[Allocation] = signed_allocation) -> Pod:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    sidecars = draw(st.integers(0, len(names)))
    regular = len(names) - sidecars
    containers = [
        Container(
            name,
            index=place if place < regular else place - regular,
            kind=ContainerKind.REGULAR if place < regular else ContainerKind.SIDECAR,
            spec=draw(spec),
            status=draw(st.none() | spec),
        )
        for place, name in enumerate(names)
    ]
    return Pod(
        namespace="default",
        name="web-0",
        containers=tuple(containers),
        annotations=draw(st.sampled_from([{}, {"team": "blue"}])),
        started_at=draw(moment),
        ready_since=draw(moment),
    )


recommendation = st.builds(
    ContainerRecommendation,
    st.sampled_from(NAMES),
    signed_resources,
    maybe_signed,
    maybe_signed,
    maybe_signed,
)
boost = st.builds(
    CpuBoost,
    st.sampled_from(["", *BoostType]),
    st.integers(1, 10),
    st.integers(-(10**4), 10**6),
    duration,
)
policy = st.builds(
    ContainerPolicy,
    st.sampled_from(["*", *NAMES]),
    mode=st.sampled_from(ContainerMode),
    min_allowed=signed_resources,
    max_allowed=signed_resources,
    controlled_values=st.sampled_from(ControlledValues),
    boost=st.none() | boost,
)
autoscaler = st.builds(
    Autoscaler,
    st.just("default"),
    st.just("web"),
    mode=st.sampled_from(UpdateMode),
    policies=st.lists(policy, max_size=3).map(tuple),
    recommendation=st.none() | st.lists(recommendation, max_size=4).map(tuple),
    boost=st.none() | boost,
)
limit_ranges = st.lists(
    st.builds(
        LimitRangeItem,
        st.sampled_from(OF_LIMIT_RANGES),
        maybe_signed,
        maybe_signed,
        maybe_signed,
    ),
    max_size=3,
)
