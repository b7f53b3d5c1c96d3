import pytest
from support.makers.wire_examples import EXTERNAL_METRIC, Json, encoded

from trimtab.api.usage.external_metrics import ExternalReading, decode_external_metrics
from trimtab.api.wire.lists import Listing
from trimtab.core.model.resources import Resource


def decoded(*items: Json, resource: Resource = Resource.CPU) -> Listing[ExternalReading]:
    return decode_external_metrics(resource, encoded({"items": list(items)}))


@pytest.mark.parametrize(
    ("resource", "value", "amount"),
    [
        pytest.param(Resource.CPU, "150m", 150, id="millicores"),
        pytest.param(Resource.CPU, "1", 1000, id="cores"),
        pytest.param(Resource.CPU, "123456789n", 124, id="fractions are rounded up"),
        pytest.param(Resource.MEMORY, "400Mi", 400 * 2**20, id="bytes"),
        pytest.param(Resource.MEMORY, "1500m", 2, id="parts of a byte"),
        pytest.param(Resource.MEMORY, 7, 7, id="a plain number"),
    ],
)
def test_a_value_is_read_as_an_amount_of_its_resource(
    resource: Resource, value: str | int, amount: int
) -> None:
    listing = decoded({**EXTERNAL_METRIC, "value": value}, resource=resource)

    assert [reading.amount for reading in listing.items] == [amount]


def test_labels_and_the_time_of_each_value_are_its_own() -> None:
    later = {"timestamp": "2026-08-01T00:01:00Z", "metricLabels": {"pod": "b"}, "value": "1"}
    first, second = decoded(EXTERNAL_METRIC, later).items

    assert first.labels == {"pod": "web-0", "name": "app"}
    assert second.labels == {"pod": "b"}
    assert second.time - first.time == 60


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"value": "lots"}, id="no quantity"),
        pytest.param({}, id="no value"),
        pytest.param({"value": "1", "timestamp": "yesterday"}, id="no time"),
        pytest.param({"value": "1", "metricLabels": ["a"]}, id="no labels"),
        pytest.param(None, id="nothing"),
    ],
)
def test_f28_a_value_that_makes_no_sense_does_not_hide_the_others(bad: Json) -> None:
    listing = decoded(bad, EXTERNAL_METRIC)

    assert len(listing.items) == len(listing.unreadable) == 1
    assert "items[0]" in str(listing.unreadable[0].error)


def test_no_values_are_no_readings() -> None:
    assert decoded().items == ()
