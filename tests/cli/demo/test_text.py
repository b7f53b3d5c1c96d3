import pytest
from cli.demo_pictures import GIB, a_picture, some_news

from trimtab.cli.demo.text import format_news, format_number, summarize
from trimtab.core.model.resources import Resource
from trimtab.simulation.demo.news import DemoEventKind


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param(Resource.CPU, 1500, "1.50", id="a core and a half"),
        pytest.param(Resource.MEMORY, GIB // 2, "0.50", id="half a GiB"),
        pytest.param(Resource.CPU, 16_250, "16", id="no decimals where they say nothing"),
        pytest.param(Resource.CPU, -16_250, "-16", id="more than was asked for"),
        pytest.param(Resource.MEMORY, None, "-", id="nothing is known"),
    ],
)
def test_amounts_are_told_in_cores_and_gib(
    resource: Resource, amount: int | None, text: str
) -> None:
    assert format_number(resource, amount) == text


@pytest.mark.parametrize("kind", DemoEventKind)
def test_news_of_any_kind_fit_into_eighty_columns(kind: DemoEventKind) -> None:
    line = format_news(some_news(kind))

    assert len(line) <= 80
    assert line.startswith("Sat 12:00  db leader  ")


def test_a_resize_tells_only_what_it_changed() -> None:
    cpu_only = some_news(before={Resource.CPU: 100, Resource.MEMORY: 5 * GIB}, times=1)
    nothing = some_news(before=some_news().after)

    assert format_news(cpu_only).endswith("resized in place: 0.10→0.34 cores")
    assert format_news(nothing).endswith("resized in place: there and back again 12x")


def test_the_summary_is_in_whole_millicores_and_bytes() -> None:
    summary = summarize(a_picture(rows=1), seed=7, real_seconds=1.23456)

    assert isinstance(summary, dict)
    assert summary["seed"] == 7
    assert summary["realSeconds"] == 1.235
    assert summary["simulatedSeconds"] == 3600
    assert summary["saved"] == {"cpuMillicores": 12_510, "memoryBytes": 15 * GIB}
    assert summary["savedHours"] == {
        "cpuMillicoreHours": 250_000,
        "memoryByteHours": round(300.4 * GIB),
    }
