import base64
import json
from typing import Any

import pytest
from support.makers.wire_examples import POD, REVIEW, Json, encoded

from trimtab.api.admission.reviews import Allowed, Answer, Refused, decode_review, encode_review
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.field_errors import forbidden, required
from trimtab.core.model.json_patch import Add, Remove

PATH = "spec.updatePolicy.updateMode"


def a_review(**request: Json) -> bytes:
    return encoded({"request": request})


def response_to(answer: Answer) -> Any:
    review = json.loads(encode_review("r-1", answer))
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return review["response"]


def test_a_request_tells_what_happens_to_which_object() -> None:
    request = decode_review(encoded(REVIEW))

    assert request.uid == "r-1"
    assert (request.group, request.version, request.resource) == ("", "v1", "pods")
    assert (request.namespace, request.name, request.subresource) == ("default", "web-0", "")
    assert request.operation == "CREATE"
    assert request.old_object is None


def test_the_object_of_a_request_is_decoded_when_somebody_asks() -> None:
    request = decode_review(encoded(REVIEW))

    assert request.object is not None
    assert decode_pod(request.object) == decode_pod(encoded(POD))


def test_f28_an_object_that_makes_no_sense_does_not_spoil_its_request() -> None:
    request = decode_review(a_review(uid="r-1", object=[1], oldObject="x"))

    assert request.uid == "r-1"
    assert request.object is not None
    with pytest.raises(DecodeError):
        decode_pod(request.object)


def test_a_request_with_nothing_in_it_is_still_a_request() -> None:
    request = decode_review(a_review())

    assert request.resource == request.operation == request.uid == ""
    assert request.object is None


@pytest.mark.parametrize("data", [b"{}", b'{"request": null}', b'{"response": {}}'])
def test_a_review_without_a_request_is_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_review(data)

    assert caught.value.path == "request"


def test_permission_without_changes_is_short() -> None:
    assert response_to(Allowed()) == {"uid": "r-1", "allowed": True}


def test_a_patch_is_sent_as_base64_of_its_operations() -> None:
    patch = (Add("/metadata/annotations", {}), Add("/a~1b", "1"), Remove("/c"))
    response = response_to(Allowed(patch, warnings=("Auto is deprecated",)))

    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert response["warnings"] == ["Auto is deprecated"]
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/a~1b", "value": "1"},
        {"op": "remove", "path": "/c"},
    ]


def test_a_refusal_is_a_status_with_every_cause() -> None:
    errors = (required(PATH), forbidden("spec.selector", "no"))
    response = response_to(Refused("web", errors, warnings=("careful",)))

    assert response["allowed"] is False
    assert response["warnings"] == ["careful"]
    assert response["status"] == {
        "status": "Failure",
        "message": 'VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: '
        f"[{PATH}: Required value, spec.selector: Forbidden: no]",
        "reason": "Invalid",
        "details": {
            "name": "web",
            "group": "autoscaling.k8s.io",
            "kind": "VerticalPodAutoscaler",
            "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": PATH},
                {
                    "reason": "FieldValueForbidden",
                    "message": "Forbidden: no",
                    "field": "spec.selector",
                },
            ],
        },
        "code": 422,
    }
