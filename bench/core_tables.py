"""The histograms' part of the page of benchmarks: what is told of it, and in which words."""

from typing import Final

from bench.sections import Section
from bench.tables import Measure, Table, Unit

SECTION: Final = Section(
    "core",
    "One tick of the histograms",
    head="""\
CPU time of one sample and three percentiles for every container, ours in one process beside the
original's own histograms in another, tick by tick in turn. A round is the median of some ticks,
after eight days of history where nothing else is said. *Narrow* usage spreads by 15 %, *wide* by
a factor of 2.7. Before any figure is believed, every percentile and the weight of every bucket has
to be equal, bit for bit.
""",
    tables=(
        Table(
            (
                Measure("cpu", "CPU per tick", Unit.MILLISECONDS),
                Measure("intake_cpu", "of it for samples", Unit.MILLISECONDS),
                Measure("percentiles_cpu", "of it for percentiles", Unit.MILLISECONDS),
                Measure("bytes", "Memory of a container's histogram", Unit.BYTES, is_share=True),
            ),
            "Usage",
            sized_by="Containers",
        ),
    ),
    bounds="""\
What bounds it: percentiles are remembered as long as no sample can move them. Where usage is wide,
or young, most have to be found anew by walking the buckets; samples cost the same everywhere.
""",
)
