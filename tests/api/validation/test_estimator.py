"""Warnings about annotations that choose the estimator."""

import pytest
from msgspec import structs
from support.makers.wire_autoscalers import written

from trimtab.api.validation.autoscaler import validate
from trimtab.api.wire.metadata import Metadata


@pytest.mark.parametrize(
    ("annotations", "warnings"),
    [
        pytest.param({}, [], id="none"),
        pytest.param(
            {"trimtab.dev/estimator": "cost", "trimtab.dev/oom-price-gib-hours": "0.5"},
            [],
            id="right ones",
        ),
        pytest.param(
            {"trimtab.dev/estimator": "Cost"},
            ["[trimtab.dev/estimator]: 'Cost' is ignored: it is none of percentile, cost"],
            id="an unknown estimator",
        ),
        *(
            pytest.param(
                {"trimtab.dev/oom-price-gib-hours": price},
                [
                    (
                        f"[trimtab.dev/oom-price-gib-hours]: '{price}' is ignored:"
                        " it is not a number from 0 on"
                    )
                ],
                id=f"a price of {price}",
            )
            for price in ("-1", "nan", "1e999", "free")
        ),
    ],
)
def test_an_annotation_of_the_estimator_without_effect_is_a_warning(
    annotations: dict[str, str], warnings: list[str]
) -> None:
    verdict = validate(structs.replace(written(), metadata=Metadata(annotations={**annotations})))

    assert verdict.allowed
    assert list(verdict.warnings) == [f"metadata.annotations{warning}" for warning in warnings]
