"""Sudden surges of pods that want a change, judged per namespace.

A tenant who changes all of its workloads at once must not hold back the others. So a namespace with
enough pods is compared with its own past. Namespaces with fewer pods are judged together, without
the one that deviates most: a surge there is a matter of several namespaces.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from trimtab.core.records import dataclass

USUAL_HALF_LIFE: Final = timedelta(hours=3)
"""After so long what was usual counts half.

A surge that lasts is news for some hours, not for ever: by then somebody saw it, or meant it.
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The pods of a namespace under active autoscalers, and those that want a change."""

    wanting: int
    counted: int

    @property
    def share(self) -> float:
        """The share of the pods that want a change."""
        return self.wanting / max(self.counted, 1)


def remember_share(usual: float | None, share: float, *, passed: timedelta) -> float:
    """The usual share after another one was seen, so long after the one before."""
    if usual is None:
        return share
    weight = math.exp2(-max(passed, timedelta()) / USUAL_HALF_LIFE)
    return weight * usual + (1.0 - weight) * share


def find_surging(
    wishes: Mapping[str, Wishes], usual: Mapping[str, float], *, margin: float, min_pods: int
) -> frozenset[str]:
    """Return the namespaces in which far more pods than usual want a change.

    A namespace of which nothing is usual yet is in no surge.
    """
    known = {name: found for name, found in wishes.items() if name in usual}
    large = {name for name, found in known.items() if found.counted >= min_pods}
    surging = {name for name in large if known[name].share - usual[name] > margin}
    small = {name: found for name, found in known.items() if name not in large}
    if _is_surge(small, usual, margin=margin, min_pods=min_pods):
        surging |= small.keys()
    return frozenset(surging)


def _is_surge(
    small: Mapping[str, Wishes], usual: Mapping[str, float], *, margin: float, min_pods: int
) -> bool:
    """Judge namespaces with few pods together, without the one with the most unusual wishes."""
    excess = {name: each.wanting - usual[name] * each.counted for name, each in small.items()}
    boldest = max(excess, key=lambda name: (excess[name], name), default=None)
    others = [name for name in small if name != boldest]
    counted = sum(small[name].counted for name in others)
    unusual = sum(excess[name] for name in others)
    return counted >= max(min_pods, 1) and unusual > margin * counted
