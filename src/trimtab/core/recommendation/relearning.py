"""Relearning: the recommendation to publish while a lost history is learned again.

Without its checkpoint a recommender would judge a container by its first minutes, and shrink it if
these happen to be at night. The status still has the earlier recommendation. Until the new history
is long enough to be trusted, no amount falls below it (decision 0011).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import timedelta

import numpy as np

from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model import autoscalers, recommendation
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.usage.checkpoint_extras import Supplement
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.core.usage.cluster_usage import Usage


def find_lost(
    autoscaler: Autoscaler, explained: Mapping[str, AbstractSet[Resource]]
) -> frozenset[str]:
    """Return the containers with a recommendation that no restored history explains."""
    return frozenset(
        published.container_name
        for published in autoscaler.recommendation or ()
        # `>=` of sets: every resource with a target needs a history of its own.
        if not explained.get(published.container_name, frozenset()) >= published.target.keys()
    )


def list_explained(
    checkpoint: AggregateCheckpoint, supplement: Supplement | None
) -> frozenset[Resource]:
    """Return the resources for which a checkpoint, with its supplement, holds anything."""
    known = {
        Resource.CPU: _holds_anything(checkpoint.cpu_histogram),
        Resource.MEMORY: _holds_anything(checkpoint.memory_histogram)
        or (supplement is not None and supplement.knows_memory),
    }
    return frozenset(resource for resource, is_known in known.items() if is_known)


def has_learned_enough(usage: Usage, key: CheckpointKey, enough: timedelta) -> bool:
    """Return True if the history of a container is long enough to be trusted."""
    name, container_name = key
    rows = np.array(usage.links.learners[name].rows(container_name), np.int64)
    first = usage.aggregates.floats("first")[rows].min(initial=np.inf)
    last = usage.aggregates.floats("last")[rows].max(initial=-np.inf)
    return bool(last - first >= enough.total_seconds())


def keep_up(
    known: PublishedRecommendation,
    autoscaler: Autoscaler,
    relearning: AbstractSet[str],
    global_max: Resources,
) -> PublishedRecommendation:
    """Return the recommendation with nothing below the stored one of relearned containers."""
    published = {
        one.container_name: _capped(one, autoscaler, global_max)
        for one in autoscaler.recommendation or ()
        if one.container_name in relearning
        and autoscalers.scales(autoscaler.policies, one.container_name)
    }
    if not published:
        return known
    now = {one.container_name: one for one in known.containers}
    merged = now | {
        name: _higher(one, now[name]) if name in now else one for name, one in published.items()
    }
    return PublishedRecommendation(
        # Sorted by name, as recommendations always are: the order alone must not be a change.
        tuple(merged[name] for name in sorted(merged)),
        tuple(name for name in known.without_samples if name not in merged),
    )


def _holds_anything(histogram: HistogramCheckpoint) -> bool:
    return histogram.total_weight > 0 and any(histogram.bucket_weights.values())


def _higher(
    one: ContainerRecommendation, other: ContainerRecommendation
) -> ContainerRecommendation:
    return replace(
        one,
        target=_highest(one.target, other.target),
        lower_bound=_highest(one.lower_bound, other.lower_bound),
        upper_bound=_highest(one.upper_bound, other.upper_bound),
        uncapped_target=_highest(one.uncapped_target, other.uncapped_target),
    )


def _highest(one: Resources | None, other: Resources | None) -> Resources:
    given = [amounts for amounts in (one, other) if amounts is not None]
    return {
        resource: max(amounts.get(resource, 0) for amounts in given)
        for resource in BOTH
        if any(resource in amounts for amounts in given)
    }


def _capped(
    published: ContainerRecommendation, autoscaler: Autoscaler, global_max: Resources
) -> ContainerRecommendation:
    """Return the stored recommendation as far as the present policy allows it."""
    policy = autoscalers.policy_for(autoscaler.policies, published.container_name)
    most = dict(zip(BOTH, recommendation.caps_for(policy, global_max).most, strict=True))
    controlled = BOTH if policy is None else policy.controlled_resources

    def within(amounts: Resources | None) -> Resources:
        return {
            resource: min(amount, most[resource])
            for resource, amount in (amounts or {}).items()
            if resource in controlled
        }

    return replace(
        published,
        target=within(published.target),
        lower_bound=within(published.lower_bound),
        upper_bound=within(published.upper_bound),
        uncapped_target={
            resource: amount
            for resource, amount in (published.uncapped_target or {}).items()
            if resource in controlled
        },
    )
