"""A workload whose pods always get what is published, with targets that are held."""

from dataclasses import dataclass, field

import numpy as np
from support.makers.usage import World, moment

from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import Samples

MIB = 1024**2
GIB = 1024**3
HELD = RecommendationSettings(estimator=Estimator.COST)


@dataclass
class Running:
    """A workload whose pods always get what is published, on nodes with enough room."""

    world: World = field(default_factory=lambda: World(HELD))
    minute: int = 0

    def __post_init__(self) -> None:
        self.world.pod("web-0")
        self.world.publications.refresh()

    def request(
        self, cpu: float, memory: float, pod: str = "web-0", limit: float | None = None
    ) -> None:
        """The container of a pod has these requests; its memory limit is the same if not given."""
        amounts = {Resource.CPU: int(cpu), Resource.MEMORY: int(memory)}
        limits = {Resource.MEMORY: int(memory if limit is None else limit)}
        name = PodName(self.world.autoscaler.namespace, pod)
        self.world.usage.note_requests(name, {"app": amounts}, {"app": limits})

    def use(
        self, cpu: float, memory: float, *, hours: float, pods: tuple[str, ...] = ("web-0",)
    ) -> None:
        """The pods use this much, read every five minutes."""
        for _ in range(round(hours * 12)):
            for pod in pods:
                self.world.cpu([cpu], [self.minute], pod)
                self.world.memory([memory], [self.minute], pod)
            self.world.publications.refresh()
            self.minute += 5

    def kill(self, pod: str = "web-0") -> None:
        """The container of a pod is OOM-killed."""
        row = self.world.row(pod)
        request = self.world.usage.containers.floats("memory")[row]
        time = moment(self.minute).timestamp()
        kill = Samples(np.array([row]), np.array([request]), np.array([time]))
        self.world.usage.add_oom_kills(kill, time)
        self.world.publications.refresh()

    @property
    def said(self) -> ContainerRecommendation:
        (found,) = self.world.publications.recommendation(self.world.autoscaler.identity).containers
        return found

    @property
    def memory(self) -> int:
        return self.said.target[Resource.MEMORY]
