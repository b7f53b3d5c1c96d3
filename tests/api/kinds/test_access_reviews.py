"""Questions about rights, as rules raise them."""

import json

import pytest

from trimtab.api.kinds.access_reviews import (
    Question,
    decode_answer,
    encode_question,
    list_questions,
)


def test_a_rule_raises_a_question_for_each_thing_that_it_allows() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/eviction"], "verbs": ["list", "watch"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["one"],
            "verbs": ["get"],
        },
    ]
    found = list(list_questions(rules, "shop"))

    assert [str(each) for each in found] == [
        "list pods in shop",
        "watch pods in shop",
        "list pods/eviction in shop",
        "watch pods/eviction in shop",
        "get leases.coordination.k8s.io one in shop",
    ]


def test_a_question_about_oneself_names_nobody() -> None:
    asked = json.loads(encode_question(Question("create", "pods/eviction", namespace="shop")))

    assert asked["kind"] == "SelfSubjectAccessReview"
    assert asked["spec"] == {
        "resourceAttributes": {
            "verb": "create",
            "group": "",
            "resource": "pods",
            "subresource": "eviction",
            "name": "",
            "namespace": "shop",
        }
    }


def test_a_question_about_an_account_names_its_groups_too() -> None:
    asked = json.loads(encode_question(Question("list", "pods"), ("kube-system", "vpa")))

    assert asked["kind"] == "SubjectAccessReview"
    assert asked["spec"]["user"] == "system:serviceaccount:kube-system:vpa"
    assert "system:serviceaccounts:kube-system" in asked["spec"]["groups"]


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        pytest.param({"status": {"allowed": True}}, True, id="one may"),
        pytest.param({"status": {"allowed": True, "denied": False}}, True, id="not denied"),
        pytest.param({"status": {"allowed": True, "denied": True}}, False, id="both"),
        pytest.param({"status": {"denied": True}}, False, id="denied"),
        pytest.param({"status": {"allowed": False, "reason": "no"}}, False, id="one may not"),
        pytest.param({"status": {}}, None, id="no word of it"),
        pytest.param({}, None, id="no answer at all"),
    ],
)
def test_an_answer_says_whether_one_may(answer: object, *, may: bool | None) -> None:
    assert decode_answer(json.dumps(answer).encode()) is may
