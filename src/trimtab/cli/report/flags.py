"""The flags of `trimtab report`."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from trimtab.cli.flags import types
from trimtab.cli.flags.recommender import HistoryFlags
from trimtab.cli.flags.types import Span, Switch, Text, Whole
from trimtab.cli.output.formats import OUTPUT, Format
from trimtab.core.report.severity import SizeSeverity

ReportFormat: TypeAlias = Literal[
    Format.TABLE,
    Format.WIDE,
    Format.JSON,
    Format.YAML,
    Format.CSV,
    Format.MARKDOWN,
    Format.HTML,
]


class Sort(StrEnum):
    """Orders of the workloads."""

    SEVERITY = "severity"
    NAME = "name"
    CPU = "cpu"
    MEMORY = "memory"


class PatchKind(StrEnum):
    """Kinds of files to write for each workload."""

    KUSTOMIZE = "kustomize"
    VPA = "vpa"


@types.flag_group("What is looked at", order=1)
@dataclass(frozen=True, slots=True)
class LookFlags:
    """Flags for the pods to read, and the time to watch them."""

    selector: Annotated[Text, Parameter(name=["--selector", "-l"])] = ""
    """Only pods with these labels, such as app=web,tier!=back."""
    watch_for: Span = timedelta(minutes=2)
    """How long usage is watched without a --prometheus-address."""
    min_samples: Whole = 2
    """With fewer samples of a container nothing is recommended for it."""


@types.flag_group("Output", order=2)
@dataclass(frozen=True, slots=True)
class OutputFlags:
    """Flags for the output."""

    output: Annotated[ReportFormat, OUTPUT] = Format.TABLE
    """How it is written; html is one file, readable offline."""
    sort: Sort = Sort.SEVERITY
    """What comes first: the worst, a name, or most CPU or memory to be saved or missing."""
    min_severity: SizeSeverity = SizeSeverity.UNKNOWN
    """Leave out workloads that are better than this."""
    patch: PatchKind | None = None
    """Write a file for each workload, too: a kustomize patch, or an autoscaler (mode Off)."""
    out: Path = Path("trimtab-patches")
    """The folder for these files."""
    min_history: Span = timedelta(hours=24)
    """A kustomize patch needs this much history of each container."""
    allow_thin_data: Switch = False
    """Write kustomize patches from less history, too."""


@types.flag_group("History from Prometheus", order=4)
@dataclass(frozen=True, slots=True)
class PastFlags(HistoryFlags):
    """Flags for Prometheus, which is read only if its address is given."""

    prometheus_address: Text = ""
    """Where Prometheus is; without it usage is watched for a while."""
