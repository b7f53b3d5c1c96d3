"""The real components that smoke tests run against, one set of updater flags for each crew.

Each component is a process of its own with the rights that the chart gives it. The admission
controller and the recommender serve all tests; each namespace belongs to one of the updaters.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest
from support.stages.components import Run, an_account, install, rights_of, running

from rig import controlplane
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

HOME = "smoke-components"
"""The namespace that the components say they run in."""
GC_SECONDS = 20
_QUICK = (
    "--updater-interval=1s",
    # All tests share one cluster, and start at the same moment.
    "--eviction-rate-limit=0",
    "--surge-min-pods=10000",
)
_IMPATIENT = (
    "--cool-down=0s",
    "--role-dwell=1s",
    "--infeasible-retry-after=5s",
    "--evict-after-deferred-threshold=5s",
    "--in-recommendation-bounds-eviction-lifetime-threshold=0s",
    "--stop-degraded-after=10s",
)


class Crew(StrEnum):
    """The updaters; the value is the name of the fixture with a scene that it works in."""

    USUAL = "scene"
    """Waits as long as it does by default."""
    HASTY = "hasty_scene"
    """Waits for seconds where the usual one waits for minutes."""
    GATELESS = "gateless_scene"
    """Runs with the gate CPUStartupBoost off."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags beside those that say where it works."""
        match self:
            case Crew.USUAL:
                return _QUICK
            case Crew.HASTY:
                return (*_QUICK, *_IMPATIENT)
            case Crew.GATELESS:
                return (*_QUICK, *_IMPATIENT, "--feature-gates=CPUStartupBoost=false")


@dataclass(frozen=True, slots=True)
class Components:
    """The components that run, by name."""

    runs: Mapping[str, Run]
    users: Mapping[str, str]
    """By the name of a component the account that it uses."""

    def lines_about(self, namespace: str, count: int = 40) -> str:
        """Return the last lines of each log that name a namespace, and the last errors."""
        return "\n".join(
            f"{name} ({run.process.log}):\n" + "\n".join(_relevant(run, namespace)[-count:])
            for name, run in self.runs.items()
        )


def _relevant(run: Run, namespace: str) -> list[str]:
    lines = run.process.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if f"{namespace}/" in line or '"level": "error"' in line]


@contextmanager
def working(
    plane: ControlPlane, folder: Path, namespaces: Mapping[Crew, Iterable[str]]
) -> Iterator[Components]:
    """Run all components for as long as the block lasts; each updater in its namespaces."""
    install(plane)
    plane.create_namespace(HOME)
    given = {name: [*each] for name, each in namespaces.items()}
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("NAMESPACE", HOME)
        runs: dict[str, Run] = {}
        users: dict[str, str] = {}

        def start(name: str, component: str, *flags: str) -> None:
            own = folder / name
            own.mkdir()
            account = f"smoke-{name}"
            plane.create_namespace(account)
            kubeconfig = an_account(plane, account, rights_of(component), own, everywhere=True)
            runs[name] = stack.enter_context(running(component, kubeconfig, own, *flags, name=name))
            users[name] = f"system:serviceaccount:{account}:default"

        start("admission-controller", "admission-controller", *_admission_flags())
        start("recommender", "recommender", *_RECOMMENDER_FLAGS)
        for crew in given:
            others = [each for name, theirs in given.items() if name != crew for each in theirs]
            start(
                f"updater-{crew.name.lower()}",
                "updater",
                *crew.flags,
                *([f"--ignored-vpa-object-namespaces={','.join(others)}"] if others else []),
            )
        runs["admission-controller"].wait_until("/readyz", lambda answer: answer[0] == 200)
        plane.wait_for(
            f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/vpa-admission-controller", bool
        )
        yield Components(runs, users)


_RECOMMENDER_FLAGS = (
    "--recommender-interval=2s",
    f"--checkpoints-gc-interval={GC_SECONDS}s",
)


def _admission_flags() -> tuple[str, ...]:
    (port,) = controlplane.free_ports(1)
    return (
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        "--register-by-url",
        f"--webhook-address=https://{LOOPBACK}",
        f"--webhook-port={port}",
        "--status-lease-update-interval=2s",
    )
