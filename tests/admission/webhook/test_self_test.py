"""The self-test: it passes only if our patch comes back, and says what is in the way."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from itertools import count
from random import Random

import jsonpatch
import pytest

from trimtab.admission.webhook.self_test import (
    ANSWER,
    BREAK_LABEL,
    Result,
    SelfTest,
    SelfTestOutcome,
    answer_trial,
    make_probe,
)
from trimtab.api.admission.dry_run_pod import encode_trial_pod
from trimtab.api.admission.reviews import AdmissionRequest, decode_review
from trimtab.api.wire.codec import encode
from trimtab.api.wire.status_errors import Status
from trimtab.cluster import errors
from trimtab.cluster.errors import ApiError, UnreachableError
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import Pod
from trimtab.core.model.resources import Resource
from trimtab.core.webhook.registration import SELF_TEST_LABEL
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.webhook_host import SimulatedWebhookHost
from trimtab.simulation.world.objects import QuotaObject
from trimtab.simulation.world.virtual_time import VirtualClock, run_virtually
from trimtab.simulation.world.world import World


class Stage:
    """A simulated cluster, with or without a webhook that answers trial pods."""

    def __init__(self, *, answers: bool = True) -> None:
        self.world = World(clock=VirtualClock(), random=Random(1))
        admitting = Admitting(self.world)
        if answers:
            admitting.webhooks = [self._answer]
        self.host = SimulatedWebhookHost(self.world, admitting)
        self.refusal: ApiError | None = None
        """What every trial is refused with."""

    async def _answer(self, pod: Pod) -> Patch | None:
        if self.refusal is not None:
            raise self.refusal
        return answer_trial(pod)

    def test(self) -> list[Result]:
        """What is told of one test."""
        told: list[Result] = []
        words = count()
        self_test = SelfTest(
            self.host, "trimtab", make_word=lambda: f"word{next(words)}", tell=told.append
        )
        passed = run_virtually(self_test())
        assert passed is told[0].has_passed
        return told


def refused(code: HTTPStatus, message: str) -> ApiError:
    return errors.refusal("POST /pods", Status(code, message=message))


def test_it_passes_when_our_patch_comes_back() -> None:
    assert Stage().test() == [Result(SelfTestOutcome.PASSED)]


def test_it_passes_where_a_quota_does_not_let_the_pod_in() -> None:
    stage = Stage()
    stage.world.quotas.put(QuotaObject("trimtab", "full", {Resource.CPU: 0}))

    assert stage.test() == [Result(SelfTestOutcome.PASSED)]


def test_it_fails_where_nobody_answers_and_says_so() -> None:
    (told,) = Stage(answers=False).test()

    assert told.outcome is SelfTestOutcome.UNCHANGED


def test_it_fails_where_nobody_answers_and_a_quota_does_not_let_the_pod_in() -> None:
    stage = Stage(answers=False)
    stage.world.quotas.put(QuotaObject("trimtab", "full", {Resource.CPU: 0}))
    (told,) = stage.test()

    assert told.outcome is SelfTestOutcome.REFUSED
    assert "full" in told.detail


RIGHT = (
    'pods is forbidden: cannot create resource "pods" in API group "" in the namespace "trimtab"'
)


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        pytest.param(
            refused(HTTPStatus.FORBIDDEN, RIGHT),
            SelfTestOutcome.RIGHT_MISSING,
            id="a missing right",
        ),
        pytest.param(
            refused(HTTPStatus.INTERNAL_SERVER_ERROR, "failed calling webhook vpa.k8s.io"),
            SelfTestOutcome.REFUSED,
            id="a webhook that must answer and does not",
        ),
        pytest.param(
            refused(HTTPStatus.TOO_MANY_REQUESTS, "later"),
            SelfTestOutcome.REFUSED,
            id="a busy server",
        ),
        pytest.param(
            UnreachableError("POST /pods", "timeout"),
            SelfTestOutcome.UNREACHABLE,
            id="a silent server",
        ),
    ],
)
def test_it_says_what_keeps_it_from_passing(refusal: ApiError, outcome: SelfTestOutcome) -> None:
    stage = Stage()
    stage.refusal = refusal
    (told,) = stage.test()

    assert told == Result(outcome, str(refusal))


def a_review(
    labels: Mapping[str, str], *, namespace: str = "trimtab", is_dry_run: bool = True
) -> AdmissionRequest:
    request = {
        "uid": "1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "dryRun": is_dry_run,
        "object": json.loads(encode_trial_pod(labels)),
    }
    return decode_review(json.dumps({"request": request}).encode())


TRIAL = {SELF_TEST_LABEL: "word"}


def test_a_trial_pod_is_answered_with_its_word() -> None:
    patch = make_probe("trimtab")(a_review(TRIAL))
    assert patch
    pod = jsonpatch.apply_patch(json.loads(encode_trial_pod(TRIAL)), encode(patch))

    assert pod["metadata"]["annotations"] == {ANSWER: "word"}


@pytest.mark.parametrize(
    "review",
    [
        pytest.param(a_review({}), id="any other pod"),
        pytest.param(a_review(TRIAL, is_dry_run=False), id="a pod that is really made"),
        pytest.param(a_review(TRIAL, namespace="shop"), id="a pod of somebody else"),
        pytest.param(a_review({"app": SELF_TEST_LABEL}), id="the label as a value"),
        pytest.param(a_review({BREAK_LABEL: "true"}), id="no word at all"),
    ],
)
def test_only_our_own_trial_pods_are_answered(review: AdmissionRequest) -> None:
    assert make_probe("trimtab")(review) is None


def test_annotations_that_others_have_added_meanwhile_stay() -> None:
    patch = answer_trial(Pod("trimtab", "trial", labels=TRIAL, annotations={"other": "kept"}))

    assert patch
    assert [each.path for each in patch] == ["/metadata/annotations/trimtab.dev~1self-tested"]
