"""One webhook process for all attacks, and a table of what each did to its good requests."""

from collections.abc import Iterator

import pytest
from attack import webhook as processes
from attack.webhook import TITLES, Webhook
from support.makers.reviews import a_pod_object, a_review

_FIGURES = pytest.StashKey[list[processes.Figures]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "attack" in item.path.parts:
            item.add_marker(pytest.mark.attack)


def a_good_review() -> processes.Json:
    """Ask about a pod that an autoscaler is for."""
    pod = a_pod_object()
    pod["metadata"]["ownerReferences"][0]["uid"] = "uid-web-1"
    return a_review(pod, dryRun=True)


@pytest.fixture(scope="session")
def webhook(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Webhook]:
    folder = tmp_path_factory.mktemp("attack")
    with processes.running(folder, a_good_review()) as found:
        yield found
        request.config.stash[_FIGURES] = found.figures


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("good requests and memory under attack")
        terminalreporter.write_line(TITLES)
        for each in figures:
            terminalreporter.write_line(str(each))
