"""Webhooks of whoever that may change pods, in the order in which they are asked."""

import json
from typing import Any

import pytest

from trimtab.api.kinds.webhook_configurations import decode_mutators, order_mutators
from trimtab.core.diagnosis.webhook import Mutator


def a_rule(**fields: list[str]) -> dict[str, list[str]]:
    usual = {"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"]}
    return {**usual, **fields}


def decoded(*rules: dict[str, list[str]], **fields: Any) -> Mutator:
    webhook = {"name": "a.example.org", "rules": rules, "failurePolicy": "Ignore", **fields}
    document = {"metadata": {"name": "config"}, "webhooks": [webhook]}
    (found,) = decode_mutators(json.dumps(document).encode())
    return found


@pytest.mark.parametrize(
    ("rules", "sees_pods", "sees_autoscalers"),
    [
        pytest.param([a_rule()], True, False, id="new pods"),
        pytest.param([a_rule(operations=["*"])], True, False, id="whatever is done to pods"),
        pytest.param([a_rule(operations=["UPDATE"])], False, False, id="pods that change"),
        pytest.param(
            [a_rule(apiGroups=["*"], resources=["*"])], True, True, id="whatever is created"
        ),
        pytest.param([a_rule(resources=["services"])], False, False, id="something else"),
        pytest.param(
            [a_rule(apiGroups=["autoscaling.k8s.io"], resources=["verticalpodautoscalers"])],
            False,
            True,
            id="autoscalers",
        ),
        pytest.param([], False, False, id="nothing"),
    ],
)
def test_rules_say_what_a_webhook_sees(
    rules: list[dict[str, list[str]]], *, sees_pods: bool, sees_autoscalers: bool
) -> None:
    found = decoded(*rules)

    assert (found.sees_new_pods, found.sees_autoscalers) == (sees_pods, sees_autoscalers)


def test_what_the_api_server_fills_in_is_known() -> None:
    silent = decoded(a_rule(), failurePolicy=None)
    told = decoded(a_rule(), timeoutSeconds=3, reinvocationPolicy="IfNeeded")

    assert (silent.fails_closed, silent.timeout_seconds, silent.is_reinvoked) == (True, 10, False)
    assert (told.fails_closed, told.timeout_seconds, told.is_reinvoked) == (False, 3, True)


def test_webhooks_are_asked_by_the_name_of_their_configuration() -> None:
    ours = Mutator("vpa-webhook-config", "vpa.k8s.io", sees_new_pods=False)
    late, later = Mutator("z", "b"), Mutator("z", "a")
    early, silent = Mutator("a", "x"), Mutator("b", "x", sees_new_pods=False)

    assert order_mutators([(late, later), (ours,), (silent,), (early,)]) == (
        early,
        ours,
        late,
        later,
    )
