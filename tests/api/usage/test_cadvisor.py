import time

import pytest

from trimtab.api.usage import cadvisor

NAME = b"container_cpu_cfs_periods_total"


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(b"a" * 100_000, id="a name without an end"),
        pytest.param(b'a="' + b"a" * 100_000, id="a value without an end"),
        pytest.param(b'a="' + b'\\"a=' * 30_000, id="escapes without an end"),
        pytest.param(b'a="b"' * 20_000, id="many labels"),
    ],
)
def test_the_time_for_a_line_grows_with_its_length_alone(labels: bytes) -> None:
    begun = time.process_time()
    cadvisor.decode_counters(NAME + b"{" + labels + b"} 1\n")

    # Some milliseconds; a search from each letter would take half a minute.
    assert time.process_time() - begun < 2
