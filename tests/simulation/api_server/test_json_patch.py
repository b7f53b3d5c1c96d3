from typing import Any

import jsonpatch
import jsonpointer
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, a_container, a_pod, amounts

from trimtab.core.model.json_patch import Add, Operation, Patch, Remove, pointer
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.quantities import format_amount
from trimtab.core.model.resources import Resources
from trimtab.simulation.api_server.json_patch import PatchError, apply_patch

POD = a_pod(
    a_container("app", requests=amounts(100, 100 * MIB), limits=amounts(memory=200 * MIB)),
    a_container("bare", index=1),
    a_container("proxy", requests=amounts(10), kind=ContainerKind.SIDECAR),
    labels={"app": "web", "a/b": "c~d"},
    annotations={"note": "1"},
)
BARE = a_pod(a_container("app"), labels={"app": "web"})


def as_document(pod: Pod) -> dict[str, Any]:
    """The pod as the API server would print it, as far as patches change it."""
    maps = {"labels": dict(pod.labels), "annotations": dict(pod.annotations)}
    metadata = {name: texts for name, texts in maps.items() if texts}
    spec = {
        kind: [_as_container(each) for each in pod.containers if each.kind is kind]
        for kind in ContainerKind
    }
    return {"metadata": metadata, "spec": spec}


def _as_container(container: Container) -> dict[str, object]:
    maps = {"requests": container.spec.requests, "limits": container.spec.limits}
    resources = {name: _as_texts(given) for name, given in maps.items() if given is not None}
    return {"name": container.name, "resources": resources}


def _as_texts(given: Resources) -> dict[str, str]:
    return {kind: format_amount(kind, amount) for kind, amount in given.items()}


def _without_empty(document: Any) -> Any:
    """The document as the server stores it: maps that are empty are left out."""
    if isinstance(document, list):
        return [_without_empty(each) for each in document]
    if not isinstance(document, dict):
        return document
    kept = {key: _without_empty(value) for key, value in document.items()}
    return {key: kept[key] for key in kept if kept[key] != {} or key in ("resources", "metadata")}


AMOUNTS = {"cpu": ("250m", "1", "2"), "memory": ("64Mi", "1Gi", "1234")}
texts = st.builds(
    pointer,
    st.just("metadata"),
    st.sampled_from(("labels", "annotations")),
    st.sampled_from(("app", "note", "a/b", "new", "x~y")),
)
maps = st.sampled_from(("/metadata/labels", "/metadata/annotations"))
resources = st.sampled_from(
    [
        f"/spec/{container}/resources"
        for container in ("containers/0", "containers/1", "initContainers/0")
    ]
)
kinds = st.builds("{}/{}".format, resources, st.sampled_from(("requests", "limits")))
amounts_set = st.one_of(
    [
        st.builds(Add, st.builds("{}/{}".format, kinds, st.just(kind)), st.sampled_from(given))
        for kind, given in AMOUNTS.items()
    ]
)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Add, texts, st.just("value")),
    st.builds(Remove, texts),
    st.builds(Add, st.one_of(maps, resources, kinds), st.just({})),
    st.builds(Remove, kinds),
    amounts_set,
    st.builds(Remove, st.builds("{}/{}".format, kinds, st.sampled_from(tuple(AMOUNTS)))),
)


@given(st.sampled_from((POD, BARE)), st.lists(operations, max_size=5).map(tuple))
def test_patches_do_what_json_patch_does_to_the_document(pod: Pod, patch: Patch) -> None:
    written = msgspec.to_builtins(patch)
    try:
        expected = jsonpatch.apply_patch(as_document(pod), written)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        with pytest.raises(PatchError):
            apply_patch(pod, patch)
        return
    patched = apply_patch(pod, patch)

    assert _without_empty(as_document(patched)) == _without_empty(expected)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/spec/containers/0", id="a container may not be inserted"),
        pytest.param("/spec/containers", id="nor may all of them be exchanged"),
        pytest.param("/spec", id="nor may the whole spec"),
        pytest.param("/spec/containers/7/resources", id="what is not there has no resources"),
        pytest.param("/status/phase/reason", id="the status is nobody's to patch"),
    ],
)
def test_a_patch_that_goes_too_far_does_not_apply(path: str) -> None:
    with pytest.raises(PatchError):
        apply_patch(POD, (Add(path, {}),))


def test_a_patch_that_changes_nothing_leaves_the_containers_themselves() -> None:
    patched = apply_patch(POD, (Add("/metadata/labels/role", "leader"),))

    assert all(one is other for one, other in zip(POD.containers, patched.containers, strict=True))
    assert patched.labels == {**POD.labels, "role": "leader"}


def test_a_map_that_holds_what_nobody_knows_stays_though_it_looks_empty() -> None:
    pod = a_pod(a_container("app", requests={}))
    patched = apply_patch(pod, (Add("/metadata/labels/role", "leader"),))

    assert patched.containers[0].spec == Allocation({}, None)
