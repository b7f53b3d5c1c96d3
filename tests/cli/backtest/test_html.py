"""The page of a backtest: whole, well-formed, of one piece, and true to what was found."""

import io
import re
from xml.parsers import expat

import numpy as np
import pytest

from trimtab.backtest.contenders import BUILT_IN
from trimtab.backtest.demand import gather
from trimtab.backtest.runs import Run, WorkerPool, run_all
from trimtab.backtest.scenarios import SCENARIOS
from trimtab.backtest.scores import score
from trimtab.backtest.tables import Row
from trimtab.cli.backtest.html import MOST_WORKLOADS, ReportContents, to_html
from trimtab.simulation.load.traces import Recording
from trimtab.simulation.world.loads import Trace
from trimtab.simulation.world.virtual_time import START

_DAY = 288
_SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@pytest.fixture(scope="module")
def findings() -> ReportContents:
    """Eight workloads for two days, one of which jumps over its limit, under two policies."""
    recordings = []
    for number in range(8):
        memory = np.full(2 * _DAY, 500.0)
        if number == 3:
            memory[_DAY:] = 1500.0
        trace = Trace((400.0,) * (2 * _DAY), tuple(memory * 1024.0**2))
        recordings.append(Recording(f"<web & {number}>", START, trace))
    demand = gather(recordings)
    runs = [Run(BUILT_IN[name], SCENARIOS["over-strict"]) for name in ("today", "trimtab")]
    outcomes = run_all(
        runs, demand, workers=WorkerPool(1), report=lambda _: None, keeps_timeline=True
    )
    rows = [
        Row(run.scenario.name, run.contender.name, score(outcome.tally), {})
        for run, outcome in zip(runs, outcomes, strict=True)
    ]
    return ReportContents("<usage>.csv", demand, runs, outcomes, rows)


def test_every_chart_is_well_formed_whatever_names_workloads_have(findings: ReportContents) -> None:
    charts = _SVG.findall(to_html(findings))

    # Two of slack against risk, and two of each drawn workload under each policy.
    assert len(charts) == 2 + MOST_WORKLOADS * 2 * 2
    for chart in charts:
        assert expat.ParserCreate().ParseFile(io.BytesIO(chart.encode()))


def test_the_page_needs_nothing_from_elsewhere(findings: ReportContents) -> None:
    page = to_html(findings)

    assert "<script" not in page
    assert not re.search(r"(?:src|href|url)\s*[=(]", page)
    assert "&lt;usage&gt;.csv" in page


def test_the_workload_that_was_killed_comes_first_with_a_mark_where_it_was(
    findings: ReportContents,
) -> None:
    page = to_html(findings)
    first = page.index("<h2>&lt;web &amp; 3&gt;</h2>")
    others = [page.index(f"<h2>&lt;web &amp; {number}&gt;</h2>") for number in (7, 6)]

    assert first < min(others)
    marks = [float(x) for x in re.findall(r'class="mark" x1="([\d.]+)"', page)]
    # It happens after one day of two: in the middle of the chart, or soon after.
    assert marks
    assert all(330 <= mark <= 640 for mark in marks)


def test_an_answer_stands_at_the_top(findings: ReportContents) -> None:
    page = to_html(findings, "Take <this> one.")

    assert page.index("Take &lt;this&gt; one.") < page.index("<svg")


def test_drawn_requests_are_those_in_force(findings: ReportContents) -> None:
    today, governed = (outcome.timeline for outcome in findings.outcomes)

    cpu = today.lines[:, 0, 0, 0]
    assert set(cpu.tolist()) == {800.0}
    # Half a day later the autoscaler has brought it down to what is needed and a margin.
    assert governed.lines[0, 0, 0, 0] == 800.0
    assert 400.0 < governed.lines[-1, 0, 0, 0] < 500.0
    assert np.isnan(today.lines[:, 1:]).all()
    assert (governed.lines[-1, 1] <= governed.lines[-1, 2]).all()
