"""Flags that all components have, under the names and with the defaults of the original.

A field is a flag, and an environment variable too: `kube_api_qps` is `--kube-api-qps` and
`TRIMTAB_KUBE_API_QPS`. The original's flags for logs are accepted, so that its command lines keep
working. The start of a component logs those that have no effect.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from cyclopts import Parameter

from trimtab.cli.flags.types import (
    Named,
    Number,
    Span,
    Switch,
    Text,
    Whole,
    flag_group,
    flag_groups,
)


class LogFormat(StrEnum):
    """Formats of the log."""

    JSON = "json"
    CONSOLE = "console"


@flag_group("Cluster", order=5)
@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """Flags for the connection to the cluster, and the namespaces to work on."""

    kubeconfig: Text = ""
    """The file that says where the cluster is, unless we run in it or kubectl's file does."""
    kube_api_qps: Number = 50.0
    """How many requests a second may be sent to the API server; 0 for any number."""
    kube_api_burst: Number = 100.0
    """How many requests may be sent at once after a while of silence."""
    read_timeout: Span = timedelta(minutes=15)
    """Fail /health-check when a required kind could not be read for this long; 0 for never."""
    vpa_object_namespace: Text = ""
    """The only namespace that is looked at; all of them if not given."""
    ignored_vpa_object_namespaces: Text = ""
    """Namespaces that are left alone, separated by commas."""
    feature_gates: Text = ""
    """Features to switch on or off, as Name=bool,... All are on."""


@flag_group("Metrics and pages", order=5)
@dataclass(frozen=True, slots=True)
class PageFlags:
    """Flags for the access to metrics and pages; the original has none of these."""

    metrics_secure: Switch = False
    """Serve metrics and pages with TLS, to callers that the API server lets get them; probes stay
    open."""
    metrics_tls_cert_file: Text = ""
    """The file of the certificate for that, read again when it changes; without it one is made."""
    metrics_tls_private_key: Text = ""
    """The file of its key."""
    health_address: Text = ""
    """Where /health-check and /readyz are served without TLS, beside --address."""


@flag_group("Leader election", order=6)
@dataclass(frozen=True, slots=True)
class ElectionFlags:
    """Flags for the election of a leader among several replicas."""

    leader_elect: Switch = False
    """Act only while holding a lease, so that several copies can run."""
    leader_elect_lease_duration: Span = timedelta(seconds=15)
    """How long others wait for a leader that is silent."""
    leader_elect_renew_deadline: Span = timedelta(seconds=10)
    """How long a leader goes on without being able to renew its lease."""
    leader_elect_retry_period: Span = timedelta(seconds=2)
    """How often the lease is looked at and renewed."""
    leader_elect_resource_lock: Named = "leases"
    """Only leases can be used."""
    leader_elect_resource_namespace: Named = "kube-system"
    """The namespace of the lease."""


@flag_group("Logs", order=7)
@dataclass(frozen=True, slots=True)
class LogFlags:
    """Flags for the log."""

    log_format: LogFormat = LogFormat.JSON
    """One JSON object per line, or text for people."""
    v: Annotated[Whole, Parameter(name=("--v", "-v"))] = 4
    """How much is logged: everything from 5 on, only warnings and errors below 1."""


@flag_group("Command line", order=8)
@dataclass(frozen=True, slots=True)
class LineFlags:
    """Flags for the parsing of the command line itself."""

    strict_flags: Switch = False
    """Refuse unknown flags, which are otherwise ignored with a warning in the log."""


@dataclass(frozen=True, slots=True)
class IdleFlags:
    """Base class of records of flags that have no effect."""


@flag_group("Accepted, without effect", order=9)
@dataclass(frozen=True, slots=True)
class KlogFlags(IdleFlags):
    """Flags of the original that have no effect here."""

    profiling: Switch = False
    """Python has other profilers."""
    stderrthreshold: Named = "info"
    """Everything goes to the standard error."""
    logtostderr: Switch = True
    """Everything goes to the standard error."""
    alsologtostderr: Switch = False
    """Everything goes to the standard error."""
    alsologtostderrthreshold: Text = ""
    """Everything goes to the standard error."""
    add_dir_header: Switch = False
    """Events have no header."""
    skip_headers: Switch = False
    """Events have no header."""
    skip_log_headers: Switch = False
    """There are no log files."""
    one_output: Switch = False
    """There is only one output."""
    log_backtrace_at: Named = ":0"
    """Unexpected errors are logged with a trace."""
    log_dir: Text = ""
    """There are no log files."""
    log_file: Text = ""
    """There are no log files."""
    log_file_max_size: Whole = 1800
    """There are no log files."""
    legacy_stderr_threshold_behavior: Switch = True
    """Everything goes to the standard error."""
    vmodule: Text = ""
    """-v is for everything."""


@flag_groups
@dataclass(frozen=True, slots=True)
class CommonFlags:
    """All flags that every component has."""

    cluster: ClusterFlags = ClusterFlags()
    pages: PageFlags = PageFlags()
    election: ElectionFlags = ElectionFlags()
    logs: LogFlags = LogFlags()
    line: LineFlags = LineFlags()
    klog: KlogFlags = KlogFlags()


@flag_groups
@dataclass(frozen=True, slots=True)
class LeaderlessFlags:
    """The common flags of a component that elects no leader, since all of its replicas act."""

    cluster: ClusterFlags = ClusterFlags()
    pages: PageFlags = PageFlags()
    logs: LogFlags = LogFlags()
    line: LineFlags = LineFlags()
    klog: KlogFlags = KlogFlags()

    @property
    def common(self) -> CommonFlags:
        """The same flags, with the election switched off."""
        return CommonFlags(
            cluster=self.cluster,
            pages=self.pages,
            logs=self.logs,
            line=self.line,
            klog=self.klog,
        )
