"""Definitions in a cluster beside ours: what they lack."""

import copy
import json
from typing import Any

import pytest

from trimtab.api.crds import definitions
from trimtab.api.crds.comparison import compare_definition, name_of
from trimtab.core.diagnosis.api_server import Definition

ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def compared(change: Any = lambda _: None, status: Any = ESTABLISHED) -> Definition:
    wanted = definitions.definitions()[1]
    found: Any = copy.deepcopy(wanted)
    change(found["spec"]["versions"][0])
    return compare_definition(wanted, json.dumps({**found, "status": status}).encode())


def _forget(version: Any, *path: str) -> None:
    schema = version["schema"]["openAPIV3Schema"]
    for step in path[:-1]:
        schema = schema["items"] if step == "items" else schema["properties"][step]
    del schema["properties"][path[-1]]


def test_our_own_definitions_lack_nothing() -> None:
    for wanted in definitions.definitions():
        found = compare_definition(wanted, json.dumps({**wanted, "status": ESTABLISHED}).encode())

        assert found == Definition(name_of(wanted))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        pytest.param(("spec", "selector"), ("spec.selector",), id="a field of ours"),
        pytest.param(("status",), ("status",), id="a whole part"),
        pytest.param(
            ("spec", "resourcePolicy", "containerPolicies", "items", "maxAllowed"),
            ("spec.resourcePolicy.containerPolicies[].maxAllowed",),
            id="a field of items of a list",
        ),
    ],
)
def test_a_field_that_is_missing_is_named_by_its_path(
    path: tuple[str, ...], told: tuple[str, ...]
) -> None:
    assert compared(lambda version: _forget(version, *path)).missing_fields == told


def test_a_schema_that_keeps_unknown_fields_lacks_none() -> None:
    def loosen(version: Any) -> None:
        version["schema"]["openAPIV3Schema"] = {"x-kubernetes-preserve-unknown-fields": True}

    assert compared(loosen).missing_fields == ()


def test_versions_that_are_not_served_or_stored_are_seen() -> None:
    assert not compared(lambda version: version.update(served=False)).serves_v1
    assert not compared(lambda version: version.update(storage=False)).stores_v1
    assert not compared(lambda version: version.update(name="v1beta2")).serves_v1
    assert not compared(status={}).is_established


@pytest.mark.parametrize(
    ("managed", "managers"),
    [
        pytest.param({"manager": "kubectl-create", "operation": "Update"}, 1, id="kubectl create"),
        pytest.param({"manager": "helm", "operation": "Apply"}, 1, id="Helm"),
        pytest.param({"manager": "kubectl", "operation": "Apply"}, 0, id="kubectl apply"),
        pytest.param({"manager": "kube-apiserver", "fieldsV1": {"f:status": {}}}, 0, id="status"),
    ],
)
def test_managers_are_named_that_hold_fields_against_an_apply(
    managed: dict[str, Any], managers: int
) -> None:
    wanted = definitions.definitions()[0]
    fields = {"fieldsV1": {"f:spec": {"f:versions": {}}}, **managed}
    found = {**wanted, "metadata": {"managedFields": [fields]}, "status": ESTABLISHED}

    seen = compare_definition(wanted, json.dumps(found).encode()).managers

    assert seen == (managed["manager"],) * managers
