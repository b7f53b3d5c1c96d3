from sys import intern

import pytest

from trimtab.api.wire.metadata import NO_METADATA, Metadata, Owner, controlling_owner, text_map
from trimtab.core.model.pods import OwnerReference


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param(None, None, id="no owners"),
        pytest.param((Owner(name="a"),), None, id="nobody claims control"),
        pytest.param((Owner(controller=True),), OwnerReference("", ""), id="a nameless owner"),
        pytest.param(
            (Owner(kind="K", name="a", controller=True), Owner(kind="K", name="b")),
            OwnerReference("K", "a"),
            id="the one in control",
        ),
    ],
)
def test_only_a_controlling_owner_is_the_owner(
    owners: tuple[Owner, ...] | None, expected: OwnerReference | None
) -> None:
    assert controlling_owner(Metadata(owner_references=owners)) == expected


def test_an_object_without_metadata_has_no_owner() -> None:
    assert controlling_owner(NO_METADATA) is None


def test_labels_are_shared_and_nulls_are_empty_text() -> None:
    found = text_map({"TEAM".lower(): None})

    assert found == {"team": ""}
    assert next(iter(found)) is intern("team")
    assert text_map(None) == {}
