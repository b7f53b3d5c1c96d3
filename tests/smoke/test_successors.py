"""Evicted pods that get no successors: the updater stops before it has evicted many more."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from smoke.scene import Scene, uids_of
from support.stages.updater import LARGE, SMALL, a_template

pytestmark = pytest.mark.smoke

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAMES = ("one", "two", "three")
REPLICAS = 8
NOTICED_SECONDS = 35
"""After so long the updater has noticed that a successor is missing."""
WORDS = ("SuccessorsMissing", "an evicted pod has no successor since")


@contextmanager
def a_webhook_that_is_down(scene: Scene) -> Iterator[None]:
    """Let no pod be created in the namespace: a webhook of another component does not answer."""
    name = scene.namespace
    webhook = {
        "name": "down.example.com",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/nothing"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    manifest = {**head, "kind": "ValidatingWebhookConfiguration", "webhooks": [webhook]}
    scene.plane.create(WEBHOOKS, manifest)
    try:
        yield
    finally:
        scene.plane.request("DELETE", f"{WEBHOOKS}/{name}")


def test_no_more_pods_are_evicted_while_others_have_no_successors(scene: Scene) -> None:
    for name in NAMES:
        scene.create(a_template(SMALL), name=name, replicas=REPLICAS)
    for name in NAMES:
        scene.wait_until_running(REPLICAS, name)
    with a_webhook_that_is_down(scene):
        scene.let_watches_catch_up()
        first, *others = NAMES
        scene.autoscale(LARGE, name=first)
        scene.wait_for_pods(lambda pods: len(pods) < REPLICAS, first)
        before = [pod for name in others for pod in scene.pods(name)]
        # The pods that are left stay, too.
        scene.watch(NOTICED_SECONDS, lambda pods: len(pods) >= REPLICAS // 2, first)
        for name in others:
            scene.autoscale(LARGE, name=name)
        scene.watch(15, lambda pods: uids_of(pods) == uids_of(before), *others)
        for name in NAMES:
            scene.wait_for_words(partial(scene.condition_messages, name), *WORDS)
