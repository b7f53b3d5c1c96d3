import pytest
from support.makers.wire_examples import NAMESPACE, encoded

from trimtab.api.kinds.nodes import decode_namespace
from trimtab.core.model.workloads import Namespace


def test_a_namespace_is_decoded_with_what_it_says_to_us_alone() -> None:
    assert decode_namespace(encoded(NAMESPACE)) == Namespace("shop", {"trimtab.dev/paused": "true"})


@pytest.mark.parametrize(
    ("value", "is_paused"),
    [("true", True), ("false", False), ("", False), ("yes", True), ("no", False)],
)
def test_a_namespace_is_paused_by_any_spelling_of_yes(value: str, *, is_paused: bool) -> None:
    assert Namespace("shop", {"trimtab.dev/paused": value}).is_paused is is_paused
