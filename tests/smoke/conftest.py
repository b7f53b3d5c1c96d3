"""One cluster with real components for all smoke tests, which run at the same time.

A path through the product is mostly waiting. So each test runs in a thread of its own as soon as
the components are there, in a namespace of its own; pytest then asks for one result after another.
"""

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from smoke import crews
from smoke.crews import Components, Crew
from smoke.scene import Path, Scene

from rig import controlplane
from rig.controlplane import Part

_AT_ONCE = 16


@dataclass(slots=True)
class Run:
    """All smoke tests of one run of pytest."""

    paths: dict[str, Path] = field(default_factory=dict)
    """By the id of the test."""
    results: dict[str, Future[None]] = field(default_factory=dict)


_RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUN] = Run()


def _crew_of(item: pytest.Function) -> Crew:
    return next(crew for crew in Crew if crew in item.fixturenames)


@pytest.fixture(scope="session")
def running(
    request: pytest.FixtureRequest,
    bring: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Components]:
    """Start the cluster, the components, and all tests."""
    bring(*controlplane.needed(*Part))
    run = request.config.stash[_RUN]
    items = [
        each
        for each in request.session.items
        if isinstance(each, pytest.Function) and each.get_closest_marker("smoke")
    ]
    names = {item.nodeid: f"smoke-{index:02}" for index, item in enumerate(items)}
    by_crew: dict[Crew, list[str]] = {}
    for item in items:
        by_crew.setdefault(_crew_of(item), []).append(names[item.nodeid])
    executor = ThreadPoolExecutor(_AT_ONCE)
    with ExitStack() as stack:
        # When the servers are gone, tests that still wait for them fail at once.
        stack.callback(executor.shutdown)
        logs = tmp_path_factory.mktemp("smoke-cluster")
        plane = stack.enter_context(controlplane.running(*Part, logs=logs))
        for name in names.values():
            plane.create_namespace(name)
        folder = tmp_path_factory.mktemp("smoke-components")
        components = stack.enter_context(crews.working(plane, folder, by_crew))
        for item in items:
            path = Path(Scene(plane, names[item.nodeid], components))
            run.paths[item.nodeid] = path
            run.results[item.nodeid] = executor.submit(_follow, item, path)
        stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        yield components


def _follow(item: pytest.Function, path: Path) -> None:
    """Run a test to its end, in a thread of its own."""
    given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    started = time.monotonic()
    try:
        item.obj(**{_crew_of(item): path.scene}, **given)
    except BaseException:
        path.said = path.scene.describe()
        raise
    finally:
        path.seconds = time.monotonic() - started
        path.scene.clear()


@pytest.fixture(name="scene")
def usual_scene(request: pytest.FixtureRequest, running: Components) -> Scene:
    """Return the namespace of the test, with an updater that waits as long as by default."""
    assert running.runs
    return request.config.stash[_RUN].paths[request.node.nodeid].scene


@pytest.fixture
def hasty_scene(request: pytest.FixtureRequest, running: Components) -> Scene:
    """Return the same with an updater that waits for seconds instead of minutes."""
    assert running.runs
    return request.config.stash[_RUN].paths[request.node.nodeid].scene


@pytest.fixture
def gateless_scene(request: pytest.FixtureRequest, running: Components) -> Scene:
    """Return the same with an updater whose gate CPUStartupBoost is off."""
    assert running.runs
    return request.config.stash[_RUN].paths[request.node.nodeid].scene


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Wait for the result of the test, which runs already."""
    pyfuncitem.config.stash[_RUN].results[pyfuncitem.nodeid].result()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with each failure what was in the namespace, and what the components logged of it."""
    report = yield
    path = item.config.stash[_RUN].paths.get(item.nodeid)
    if path is not None and call.when == "call":
        report.duration = path.seconds
        if report.failed:
            scene = path.scene
            report.sections += [
                (f"namespace {scene.namespace}", path.said),
                ("components", scene.components.lines_about(scene.namespace)),
            ]
    return report
