"""What the log says of new pods."""

import logging
from collections.abc import Callable

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_recommendation, amounts
from support.makers.reviews import Webhook, a_pod_object, a_review

from trimtab.admission.logs import TOLD_PER_MINUTE
from trimtab.core.model.autoscalers import CpuBoost

UP = a_recommendation(target=amounts(500, 500 * MIB))
USUAL = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime"}


def sized(log: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """The keys and values of each event about a new pod."""
    return [
        {key: value for key, value in vars(record).items() if key not in USUAL}
        for record in log.records
        if record.getMessage() == "pod sized"
    ]


def admit(
    count: int, log: pytest.LogCaptureFixture, timer: Callable[[], float], **more: object
) -> None:
    """Let pods of the Deployment `web` be created."""

    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP, **more)  # type: ignore[arg-type]
        webhook = Webhook(cluster, timer=timer)
        for _ in range(count):
            webhook.ask(a_review(a_pod_object()))

    log.set_level(logging.INFO)
    run_virtually(scene())


def test_a_new_pod_is_told_of_with_all_that_it_gets(caplog: pytest.LogCaptureFixture) -> None:
    admit(1, caplog, lambda: 0.0)

    assert sized(caplog) == [
        {
            "owner": "default/ReplicaSet/web-1",
            "autoscaler": "default/web",
            "changes": {
                "containers/0/requests/cpu": "500m",
                "containers/0/requests/memory": "500Mi",
            },
            "boosted": [],
        }
    ]


def test_a_boost_is_told_of_by_its_container(caplog: pytest.LogCaptureFixture) -> None:
    admit(1, caplog, lambda: 0.0, boost=CpuBoost(factor=2))

    (told,) = sized(caplog)
    assert told["boosted"] == ["app"]
    assert told["changes"] == {
        "containers/0/requests/cpu": "1",
        "containers/0/requests/memory": "500Mi",
    }


def test_of_many_pods_at_once_some_are_told_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ticks = iter([*[0.0] * 200, *[61.0] * 200])
    admit(TOLD_PER_MINUTE + 60, caplog, lambda: next(ticks))

    told = sized(caplog)
    (counted,) = [each for each in told if "left_out" in each]
    assert counted["kind"] == "default/web"
    assert len([each for each in told if "left_out" not in each]) <= 2 * TOLD_PER_MINUTE


def test_a_pod_that_gets_nothing_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        Webhook(cluster).ask(a_review(a_pod_object()))

    caplog.set_level(logging.INFO)
    run_virtually(scene())

    assert sized(caplog) == []
