"""What is told of trouble, and what is only counted."""

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.reviews import AUTOSCALERS, Webhook, a_pod_object, a_review

from trimtab.admission.admit import AdmitOutcome
from trimtab.admission.logs import TOLD_IN_ALL, TOLD_PER_MINUTE, RateLimitedLogger
from trimtab.admission.reports import ReviewTrouble

A_MINUTE_LATER = 61.0


class Watch:
    """A timer that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def told(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if not hasattr(record, "left_out")]


def left_out(log: pytest.LogCaptureFixture) -> dict[str, int]:
    """By event how much of it was left out."""
    found = [record for record in log.records if hasattr(record, "left_out")]
    return {record.getMessage(): getattr(record, "left_out", 0) for record in found}


def test_each_kind_is_told_ten_times_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    teller = RateLimitedLogger(Watch())
    for kind in ("broken", "unknown"):
        for number in range(TOLD_PER_MINUTE + 5):
            teller.tell("review not understood", f"{number}", kind)

    assert len(told(caplog)) == 2 * TOLD_PER_MINUTE


def test_what_was_left_out_is_told_when_the_minute_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()
    teller = RateLimitedLogger(watch)
    for _ in range(TOLD_PER_MINUTE + 5):
        teller.tell("connection refused", "413")
    teller.tell("autoscaler refused", "default/web")
    before = left_out(caplog)
    watch.now = A_MINUTE_LATER
    teller.turn_over(watch())
    teller.tell("connection refused", "413")

    assert before == {}
    assert left_out(caplog) == {"connection refused": 5}
    assert told(caplog).count("connection refused") == TOLD_PER_MINUTE + 1


def test_however_many_kinds_there_are_an_event_is_told_so_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()
    teller = RateLimitedLogger(watch)
    for number in range(3 * TOLD_IN_ALL):
        teller.tell("review not understood", "", f"kind-{number}")
    teller.tell("connection refused", "413")
    watch.now = A_MINUTE_LATER
    teller.turn_over(watch())
    teller.tell("review not understood", "", "kind-0")

    assert told(caplog).count("review not understood") == TOLD_IN_ALL + 1
    assert told(caplog).count("connection refused") == 1
    assert left_out(caplog) == {"review not understood": 2 * TOLD_IN_ALL}


def details(log: pytest.LogCaptureFixture, event: str) -> list[tuple[str, str]]:
    """List the detail and the object kind of each log record of an event."""
    found = [record for record in log.records if record.getMessage() == event]
    return [(getattr(record, "detail", ""), getattr(record, "kind", "")) for record in found]


def a_bad_autoscaler(mistakes: int, text: str = "much") -> dict[str, object]:
    policies = [
        {"containerName": f"container-{number}", "minAllowed": {"cpu": text}}
        for number in range(mistakes)
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRef": target, "resourcePolicy": {"containerPolicies": policies}},
    }


def test_an_autoscaler_that_is_refused_is_logged_whole_and_with_its_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        webhook = Webhook(UpdaterCluster())
        review = a_review(a_bad_autoscaler(20), AUTOSCALERS)
        answer = webhook.ask(review)
        ((detail, kind),) = details(caplog, "autoscaler refused")
        causes = answer["status"]["details"]["causes"]

        assert kind == "VerticalPodAutoscaler"
        assert len(causes) == 20
        assert all(f"{one['field']}: {one['message']}" in detail for one in causes)

    run_virtually(play())


def test_not_even_a_hostile_autoscaler_fills_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        webhook = Webhook(UpdaterCluster())
        webhook.ask(a_review(a_bad_autoscaler(20, "x" * 10_000), AUTOSCALERS))
        ((detail, _),) = details(caplog, "autoscaler refused")

        assert len(detail) < 70_000
        assert detail.endswith(" more characters)")

    run_virtually(play())


def test_a_minute_in_which_everything_was_told_ends_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()
    teller = RateLimitedLogger(watch)
    for _ in range(TOLD_PER_MINUTE):
        teller.tell("connection refused", "413")
    watch.now = A_MINUTE_LATER
    teller.turn_over(watch())

    assert left_out(caplog) == {}


def test_our_own_failures_fill_no_log_and_each_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        cluster, watch = UpdaterCluster(), Watch()
        cluster.deploy()
        cluster.autoscale()
        webhook = Webhook(cluster, timer=watch)
        webhook.admission.index.find = None  # type: ignore[method-assign, assignment]
        cluster.items = None  # type: ignore[assignment]
        for _ in range(100):
            webhook.ask(a_review(a_pod_object()))
            webhook.ask(a_review({"spec": {"targetRef": {"kind": "a", "name": "b"}}}, AUTOSCALERS))
        watch.now = A_MINUTE_LATER
        webhook.send(b"")

        assert webhook.tally.pods == {AdmitOutcome.FAILED: 100}
        assert webhook.tally.troubles[ReviewTrouble.FAILED] == 100
        assert told(caplog).count("admission failed") == TOLD_PER_MINUTE
        assert told(caplog).count("review failed") == TOLD_PER_MINUTE
        assert left_out(caplog) == {
            "admission failed": 90,
            "review failed": 90,
            "review not understood": 90,
        }

    run_virtually(play())
