"""Questions about rights, of ourselves or of somebody else, as rules of roles raise them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import msgspec

from trimtab.api.decoding import Wire, decode
from trimtab.api.encoding import encode
from trimtab.core.records import dataclass


class _Status(Wire, frozen=True, kw_only=True):
    allowed: bool | None = None
    denied: bool | None = None


class _Review(Wire, frozen=True, kw_only=True):
    status: _Status | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True)
class Question:
    """Whether something may be done."""

    verb: str
    resource: str
    """With its subresource: `pods/eviction`."""
    group: str = ""
    name: str = ""
    """Of one object; empty for any."""
    namespace: str = ""
    """Empty for all namespaces."""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}{named}" + (f" in {self.namespace}" * bool(self.namespace))


def list_questions(
    rules: Sequence[Mapping[str, Sequence[str]]], namespace: str = ""
) -> Iterator[Question]:
    """All that some rules of a role allow, in a namespace or everywhere."""
    for rule in rules:
        names = rule.get("resourceNames") or ("",)
        for group, resource, name, verb in product(
            rule["apiGroups"], rule["resources"], names, rule["verbs"]
        ):
            yield Question(verb, resource, group, name, namespace)


def encode_question(question: Question, account: tuple[str, str] | None = None) -> bytes:
    """The JSON of the question, about ourselves or about a ServiceAccount (namespace and name)."""
    resource, _, subresource = question.resource.partition("/")
    attributes = {
        "verb": question.verb,
        "group": question.group,
        "resource": resource,
        "subresource": subresource,
        "name": question.name,
        "namespace": question.namespace,
    }
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if account is not None:
        namespace, name = account
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        accounts = "system:serviceaccounts"
        spec["groups"] = [accounts, f"{accounts}:{namespace}", "system:authenticated"]
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    return encode({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})


def decode_answer(data: bytes) -> bool | None:
    """Return True if it may be done, by the JSON of an answered review; None if it is silent.

    A denial outweighs a permission: an answer with both is in error.
    """
    status = decode(_REVIEW, data).status
    if status is None:
        return None
    return False if status.denied else status.allowed
