"""A small world for tests about usage: one autoscaler, a few pods, samples by the minute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from support.makers.records import an_autoscaler

from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import Autoscaler, ContainerRecommendation
from trimtab.core.model.recommendation import PublishedRecommendation, RecommendationSettings
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.recommendation.recommender import Publications
from trimtab.core.usage.aggregates import UsageSettings
from trimtab.core.usage.checkpoints import encode_checkpoints, encode_histories
from trimtab.core.usage.cluster_usage import Usage
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import SampleCounts, Samples

BEGIN = datetime(2026, 8, 22, tzinfo=UTC)
WEB = {"app": "web"}
LATER = datetime(2200, 1, 1, tzinfo=UTC)
"""When samples are read unless a test says otherwise: after everything that it tells."""
DAY = 24 * 60
"""Minutes of a day."""


def a_selector(**labels: str) -> Selector:
    """Pods that carry all these labels."""
    requirements = [LabelRequirement(key, Operator.IN, (value,)) for key, value in labels.items()]
    return Selector(tuple(requirements))


def samples(
    containers: int | Sequence[int], values: Sequence[float], minutes: Sequence[float]
) -> Samples:
    """Samples of one container, or of as many as there are values."""
    rows = np.broadcast_to(np.asarray(containers, np.int64), len(values))
    with np.errstate(over="ignore"):
        times = BEGIN.timestamp() + 60 * np.asarray(minutes, np.float64)
    return Samples(rows, np.asarray(values, np.float64), times)


def moment(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


@dataclass
class World:
    """One autoscaler that learns from the pods labelled app=web."""

    settings: RecommendationSettings = field(default_factory=RecommendationSettings)
    usage_settings: UsageSettings = field(default_factory=UsageSettings)
    autoscaler: Autoscaler = field(default_factory=an_autoscaler)
    now: datetime = LATER

    def __post_init__(self) -> None:
        self.usage = Usage(self.usage_settings, self.settings)
        self.publications = Publications(self.usage, self.settings)
        self.usage.learn(self.autoscaler, a_selector(**WEB))

    def pod(
        self,
        name: str = "web-0",
        *containers: str,
        labels: Mapping[str, str] | None = None,
        minute: float = 0,
    ) -> None:
        """A pod is seen, with these containers (one called app if none is named)."""
        pod = PodName(self.autoscaler.namespace, name)
        self.usage.track(pod, {**WEB, **(labels or {})}, containers or ("app",), moment(minute))

    def row(self, pod: str = "web-0", container: str = "app") -> int:
        """The row of a container, -1 if it is not tracked."""
        return self.usage.containers_of(PodName(self.autoscaler.namespace, pod)).get(container, -1)

    def cpu(
        self,
        values: Sequence[float],
        minutes: Sequence[float],
        pod: str = "web-0",
        name: str = "app",
    ) -> SampleCounts:
        given = samples(self.row(pod, name), values, minutes)
        return self.usage.add_cpu(given, self.now.timestamp()).counts

    def memory(
        self,
        values: Sequence[float],
        minutes: Sequence[float],
        pod: str = "web-0",
        name: str = "app",
    ) -> SampleCounts:
        given = samples(self.row(pod, name), values, minutes)
        return self.usage.add_memory(given, self.now.timestamp()).counts

    def oom(
        self,
        values: Sequence[float],
        minutes: Sequence[float],
        pod: str = "web-0",
        name: str = "app",
    ) -> SampleCounts:
        given = samples(self.row(pod, name), values, minutes)
        return self.usage.add_oom_kills(given, self.now.timestamp()).counts

    def say(self, **changes: object) -> None:
        """The autoscaler says something else now."""
        self.autoscaler = replace(self.autoscaler, **changes)  # type: ignore[arg-type]
        self.usage.learn(self.autoscaler, a_selector(**WEB))

    def recommendation(self) -> PublishedRecommendation:
        """What the autoscaler says after a refresh."""
        self.publications.refresh()
        return self.publications.recommendation(self.autoscaler.identity)

    def container(self, name: str = "app") -> ContainerRecommendation:
        """What the autoscaler says of one container."""
        (found,) = [one for one in self.recommendation().containers if one.container_name == name]
        return found

    def viewing(self, autoscaler: Autoscaler) -> "World":
        """The same world as another autoscaler sees it."""
        view = World(self.settings, self.usage_settings, autoscaler)
        view.usage, view.publications = self.usage, self.publications
        return view

    def history(self, name: str = "app") -> AggregateCheckpoint:
        """Everything that is known of a container."""
        return encode_histories(self.usage, [self.autoscaler.identity])[
            self.autoscaler.identity, name
        ]

    def checkpoint(self, minute: float, name: str = "app") -> AggregateCheckpoint:
        """What a checkpoint of a container would hold."""
        identity = self.autoscaler.identity
        return encode_checkpoints(self.usage, [identity], moment(minute))[identity, name]

    def restarted(self, minute: float) -> "World":
        """The world after the process died and read its checkpoints again; pods come later."""
        names = [name for name in self.usage.links.learners if name == self.autoscaler.identity]
        saved = encode_checkpoints(self.usage, names, moment(minute))
        world = World(self.settings, self.usage_settings, self.autoscaler)
        for (name, container_name), checkpoint in saved.items():
            world.usage.restore(name, container_name, checkpoint)
        return world


def a_day_of_usage(**fields: object) -> World:
    """A day of 100 millicores and 100 MB, a sample a minute."""
    world = World(**fields)  # type: ignore[arg-type]
    world.pod()
    minutes = range(DAY + 1)
    world.cpu([100.0] * len(minutes), minutes)
    world.memory([100e6] * len(minutes), minutes)
    return world
