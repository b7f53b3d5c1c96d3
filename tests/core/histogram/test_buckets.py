import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, BucketScheme

SCHEMES = pytest.mark.parametrize(
    "scheme", [pytest.param(CPU_BUCKETS, id="cpu"), pytest.param(MEMORY_BUCKETS, id="memory")]
)


def digest(numbers: NDArray[np.float64]) -> str:
    return hashlib.sha256(numbers.astype("<f8").tobytes()).hexdigest()


def find(scheme: BucketScheme, value: float) -> int:
    return int(scheme.find(np.array([value]))[0])


@SCHEMES
def test_both_resources_have_one_hundred_and_seventy_six_buckets(scheme: BucketScheme) -> None:
    assert scheme.count == 176


@pytest.mark.parametrize(
    ("scheme", "of_starts", "of_boundaries"),
    [
        pytest.param(
            CPU_BUCKETS,
            "94aeecbd7d8659d412a277ea5ec1bc4dc2b7dd722c30afcda4150482ab7f66ae",
            "d1edefa5c6830b217103f1dfc30cf3c7c9f4943736e437aac0cbc5f8b3df0b10",
            id="cpu",
        ),
        pytest.param(
            MEMORY_BUCKETS,
            "fd68903befea1780cda0b0e94100e1e613f9b3b5fa3301546430ee5268894598",
            "060fc758b46b6fe5cebb10f7a4d480036068811cc40830b28bc82b14f531d001",
            id="memory",
        ),
    ],
)
def test_every_start_and_boundary_is_the_original_s_to_the_last_bit(
    scheme: BucketScheme, of_starts: str, of_boundaries: str
) -> None:
    # Digests of what the original's own functions return, found there by bisection.
    assert digest(scheme.starts[1:]) == of_starts
    assert digest(scheme._boundaries[1:]) == of_boundaries


@pytest.mark.parametrize(
    ("scheme", "value", "bucket"),
    [
        pytest.param(CPU_BUCKETS, 0.0, 0, id="nothing is in the first bucket"),
        pytest.param(CPU_BUCKETS, -3.0, 0, id="less than nothing is in the first bucket"),
        pytest.param(CPU_BUCKETS, -1e300, 0, id="even very much less"),
        pytest.param(CPU_BUCKETS, 5e-324, 0, id="the least number is in the first bucket"),
        pytest.param(CPU_BUCKETS, 0.009999, 0, id="just below the first bucket's end"),
        pytest.param(CPU_BUCKETS, 0.01, 1, id="the first bucket's end is in the second"),
        pytest.param(CPU_BUCKETS, 0.1, 8, id="a tenth of a core"),
        pytest.param(CPU_BUCKETS, 1000.0, 174, id="the maximum is in the last but one"),
        pytest.param(CPU_BUCKETS, 1021.2, 175, id="above the last start"),
        pytest.param(CPU_BUCKETS, 1e300, 175, id="far above"),
        pytest.param(MEMORY_BUCKETS, 1e7, 1, id="ten megabytes"),
        pytest.param(MEMORY_BUCKETS, 1e8, 8, id="a hundred megabytes"),
        pytest.param(MEMORY_BUCKETS, 20_500_000.0, 1, id="a round boundary is missed by the log"),
        pytest.param(MEMORY_BUCKETS, 20_500_000.00000002, 2, id="and reached a few units above"),
    ],
)
def test_a_value_falls_into_its_bucket(scheme: BucketScheme, value: float, bucket: int) -> None:
    assert find(scheme, value) == bucket


@SCHEMES
def test_a_boundary_is_the_least_value_of_its_bucket(scheme: BucketScheme) -> None:
    boundaries = scheme._boundaries
    below = np.nextafter(boundaries[1:], 0.0)

    assert scheme.find(boundaries).tolist() == list(range(scheme.count))
    assert scheme.find(below).tolist() == list(range(scheme.count - 1))


@SCHEMES
@given(data=st.data())
def test_the_table_of_cells_agrees_with_a_search_among_boundaries(
    scheme: BucketScheme, data: st.DataObject
) -> None:
    floats = st.floats(min_value=-1.0, max_value=2 * scheme.maximum)
    values = np.array(data.draw(st.lists(floats, min_size=1, max_size=20)))
    expected = np.searchsorted(scheme._boundaries, np.maximum(values, 0.0), side="right") - 1

    assert scheme.find(values).tolist() == expected.tolist()


@SCHEMES
def test_the_last_bucket_ends_at_its_own_start(scheme: BucketScheme) -> None:
    assert scheme.ends[-1] == scheme.starts[-1]
    assert scheme.ends[:-1].tolist() == scheme.starts[1:].tolist()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"first": 0.0}, "first", id="a first bucket without width"),
        pytest.param({"first": -1.0}, "first", id="a first bucket of negative width"),
        pytest.param({"first": 2000.0}, "first", id="a first bucket beyond the maximum"),
        pytest.param({"first": math.nan}, "first", id="a first bucket that is no number"),
        pytest.param({"maximum": math.inf}, "first", id="no maximum"),
        pytest.param({"ratio": 1.0}, "ratio", id="buckets that do not grow"),
        pytest.param({"ratio": math.nan}, "ratio", id="a ratio that is no number"),
        pytest.param({"epsilon": 0.0}, "epsilon", id="every bucket occupied"),
        pytest.param({"epsilon": math.inf}, "epsilon", id="no bucket ever occupied"),
        pytest.param({"maximum": 1e9}, "maximum", id="too many buckets"),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused_by_field(
    fields: dict[str, float], named: str
) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        BucketScheme(**{"first": 0.01, "maximum": 1000.0, **fields})


def test_a_scheme_of_other_numbers_finds_its_own_starts() -> None:
    scheme = BucketScheme(first=1.0, maximum=100.0, ratio=1.5, epsilon=0.1)
    middles = (scheme.starts[1:] + scheme.starts[:-1]) / 2

    assert scheme.count == 11
    assert scheme.find(middles).tolist() == list(range(scheme.count - 1))
