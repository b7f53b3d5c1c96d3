import pytest
from support.makers.records import MIB, amounts
from support.makers.wire_examples import Json, encoded

from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType


def decoded(*items: Json) -> tuple[LimitRangeItem, ...]:
    return decode_limit_range(encoded({"spec": {"limits": list(items)}}))


def test_bounds_and_default_of_an_item_are_decoded() -> None:
    item = {
        "type": "Container",
        "min": {"cpu": "50m"},
        "max": {"cpu": 1, "memory": "1Mi"},
        "default": {"memory": "2Mi"},
        "defaultRequest": {"cpu": "70m"},
    }

    assert decoded(item) == (
        LimitRangeItem(
            LimitRangeType.CONTAINER,
            amounts(50),
            amounts(1000, MIB),
            amounts(memory=2 * MIB),
            default_request=amounts(70),
        ),
    )


@pytest.mark.parametrize(
    ("ratio", "thousandths"),
    [
        pytest.param({"cpu": "2"}, (2000, None), id="a whole number"),
        pytest.param({"cpu": "1500m", "memory": "3"}, (1500, 3000), id="a fraction"),
        pytest.param({"memory": "1.5"}, (None, 1500), id="of memory alone"),
        pytest.param(None, (None, None), id="none"),
    ],
)
def test_the_ratio_of_a_limit_to_its_request_is_decoded_in_thousandths(
    ratio: Json, thousandths: tuple[int | None, int | None]
) -> None:
    (item,) = decoded({"type": "Pod", "maxLimitRequestRatio": ratio})

    assert (item.max_cpu_ratio, item.max_memory_ratio) == thousandths


def test_items_for_anything_but_pods_and_containers_are_left_out() -> None:
    items = decoded({"type": "PersistentVolumeClaim", "min": {"cpu": "bad"}}, {"type": "Pod"}, {})

    assert items == (LimitRangeItem(LimitRangeType.POD),)


def test_an_empty_default_is_not_an_absent_one() -> None:
    assert decoded({"type": "Pod", "default": {}})[0].default == {}


@pytest.mark.parametrize("data", [b"{}", b'{"spec": null}', b'{"spec": {"limits": null}}'])
def test_a_limit_range_without_items_bounds_nothing(data: bytes) -> None:
    assert decode_limit_range(data) == ()


def test_a_bad_bound_is_named_by_its_path() -> None:
    with pytest.raises(DecodeError) as caught:
        decoded({"type": "Other"}, {"type": "Pod", "max": {"memory": "x"}})

    assert caught.value.path == "spec.limits[1].max[memory]"


def test_a_minimum_is_rounded_up_and_what_bounds_from_above_is_rounded_down() -> None:
    odd = {"memory": "0.3Gi"}

    (item,) = decoded({"type": "Pod", "min": odd, "max": odd, "default": odd})

    low, high = amounts(memory=322122547), amounts(memory=322122548)
    assert (item.min, item.max, item.default) == (high, low, low)
