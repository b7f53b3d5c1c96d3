"""Usage that has to be asked for pod by pod: which pods, and by whose selector."""

from collections import defaultdict
from collections.abc import Callable

from trimtab.api.external_metrics import PodGroup
from trimtab.api.metrics import UsageColumns
from trimtab.cluster.ports import ExternalMetrics
from trimtab.core.containers import PodName
from trimtab.core.records import dataclass
from trimtab.core.selectors import Selector
from trimtab.recommender.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class ExternalUsage:
    """The usage of all pods that autoscalers of ours are for."""

    metrics: ExternalMetrics
    knowledge: Callable[[], Knowledge]
    """What is known at the moment of asking."""

    async def fetch(self) -> UsageColumns:
        """The newest reading of every container."""
        return await self.metrics.fetch(list_groups(self.knowledge()))


def list_groups(knowledge: Knowledge) -> list[PodGroup]:
    """The running pods that somebody learns from, each once, by a selector that finds it."""
    found: defaultdict[tuple[str, Selector], list[str]] = defaultdict(list)
    for namespace, name in sorted(knowledge.pods.tracked):
        pod = PodName(namespace, name)
        selector = _selector_of(knowledge, pod)
        if selector is not None and pod not in knowledge.pods.ended:
            found[namespace, selector].append(name)
    return [PodGroup(*place, tuple(pods)) for place, pods in found.items()]


def _selector_of(knowledge: Knowledge, pod: PodName) -> Selector | None:
    """The selector of an autoscaler of ours that is for the pod; None if none is."""
    links, containers = knowledge.usage.links, knowledge.usage.containers
    # All containers of a pod have the same labels, so one tells of all.
    for row in knowledge.usage.containers_of(pod).values():
        learners = links.learners_of(int(containers.aggregate[row]))
        ours = sorted(name for name in learners if knowledge.subjects[name].is_ours)
        return links.learners[ours[0]].selector if ours else None
    return None
