"""The flags of `trimtab run`: those of all components, each with the same meaning as there.

A flag that several components have is given once and holds for each of them. A component has no
address of its own here. The name of its lease is always the default: so `run` and a component that
runs alone elect one leader, like two replicas.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Final, TypeAlias, TypeVar, cast

from cyclopts import Parameter

from trimtab.cli.flags import admission as admission_flags
from trimtab.cli.flags import recommender as recommender_flags
from trimtab.cli.flags import roles as roles_flags
from trimtab.cli.flags import start
from trimtab.cli.flags import updater as updater_flags
from trimtab.cli.flags.common import CommonFlags, ElectionFlags, LineFlags
from trimtab.cli.flags.types import Switch, Text, flag_group, flag_groups
from trimtab.core.model.hpa import HpaConflict

_USUAL_WRITES: Final = updater_flags.CareFlags().update_worker_count

_Given: TypeAlias = Annotated[str, Parameter(parse=False)]
"""A flag of a component that `run` does not take."""
_Shared: TypeAlias = Annotated[bool, Parameter(parse=False)]
"""A flag whose value comes from the same flag of another component."""
_SharedWhole: TypeAlias = Annotated[int, Parameter(parse=False)]
_SharedChoice: TypeAlias = Annotated[HpaConflict, Parameter(parse=False)]


@flag_group("Run", order=0)
@dataclass(frozen=True, slots=True)
class TogetherFlags:
    """Flags of `run` itself: its components, its cluster, and its address."""

    address: Text = ""
    """Where /metrics, /health-check, /readyz, /plan, /roles and /explain/* are served, for all
    components; if not given, 127.0.0.1:8942, and :8942 in a pod."""
    context: Text = ""
    """The context in the kubeconfig; the current one if not given."""
    roles: Switch = False
    """Keep roles, too: see `trimtab roles`."""
    no_admission: Switch = False
    """Leave out the admission controller, for example where the API server cannot reach it."""


@flag_group("Recommender", order=1)
@dataclass(frozen=True, slots=True)
class _RecommenderLoop(recommender_flags.LoopFlags):
    address: _Given = ":0"
    leader_elect_resource_name: _Given = "vpa-recommender-lease"


@flag_groups
@dataclass(frozen=True, slots=True)
class RecommenderFlags(recommender_flags.RecommenderFlags):
    """The recommender's flags."""

    loop: _RecommenderLoop = _RecommenderLoop()


@flag_group("Updater", order=1)
@dataclass(frozen=True, slots=True)
class _UpdaterLoop(updater_flags.LoopFlags):
    address: _Given = ":0"
    leader_elect_resource_name: _Given = "vpa-updater"


@flag_group("Care", order=4)
@dataclass(frozen=True, slots=True)
class _UpdaterCare(updater_flags.CareFlags):
    hpa_conflict: _SharedChoice = HpaConflict.HOLD
    update_worker_count: _SharedWhole = _USUAL_WRITES


@flag_groups
@dataclass(frozen=True, slots=True)
class UpdaterFlags(updater_flags.UpdaterFlags):
    """The updater's flags."""

    loop: _UpdaterLoop = _UpdaterLoop()
    care: _UpdaterCare = _UpdaterCare()


@flag_group("Admission", order=1)
@dataclass(frozen=True, slots=True)
class _AdmissionServing(admission_flags.ServingFlags):
    address: _Given = ":0"


@flag_group("Care", order=4)
@dataclass(frozen=True, slots=True)
class _AdmissionCare(admission_flags.CareFlags):
    hpa_conflict: _SharedChoice = HpaConflict.HOLD
    cap_to_largest_node: _Shared = True
    workers: _SharedWhole = 1


@flag_groups
@dataclass(frozen=True, slots=True)
class AdmissionFlags(admission_flags.AdmissionFlags):
    """The admission controller's flags."""

    serving: _AdmissionServing = _AdmissionServing()
    care: _AdmissionCare = _AdmissionCare()


@flag_group("Roles", order=1)
@dataclass(frozen=True, slots=True)
class RolesFlags(roles_flags.RolesFlags):
    """The role keeper's flags."""

    address: _Given = ":0"
    pause: _Shared = False
    leader_elect_resource_name: _Given = "trimtab-roles"


@flag_group("Leader election", order=6)
@dataclass(frozen=True, slots=True)
class _Election(ElectionFlags):
    # With a kubeconfig, others may run components on the same cluster without our knowledge.
    leader_elect: Switch = True
    """Act only while holding a lease, so that several copies can run, or one beside an
    installation."""


@flag_group("Command line", order=8)
@dataclass(frozen=True, slots=True)
class _Line(LineFlags):
    # People type this command line, so unknown flags are always refused.
    strict_flags: _Shared = True


@flag_groups
@dataclass(frozen=True, slots=True)
class SharedFlags(CommonFlags):
    """The flags that every component has."""

    election: _Election = _Election()
    line: _Line = _Line()


FlagsT = TypeVar("FlagsT")


@flag_groups
@dataclass(frozen=True, slots=True)
class RunFlags:
    """All flags of `trimtab run` besides the common ones."""

    recommender: RecommenderFlags = RecommenderFlags()
    updater: UpdaterFlags = UpdaterFlags()
    admission: AdmissionFlags = AdmissionFlags()
    roles: RolesFlags = RolesFlags()
    together: TogetherFlags = TogetherFlags()


def share(flags: RunFlags) -> RunFlags:
    """Return the flags with each changed value copied to all components that have the flag."""
    said: dict[str, object] = {}
    for each in (flags.recommender, flags.updater, flags.admission, flags.roles):
        said |= start.list_changed(each)
    return replace(
        flags,
        recommender=_overwrite(flags.recommender, said),
        updater=_overwrite(flags.updater, said),
        admission=_overwrite(flags.admission, said),
        roles=_overwrite(flags.roles, said),
    )


def _overwrite(record: FlagsT, said: dict[str, object]) -> FlagsT:
    """Return the record, and records in it, with the given values."""
    assert is_dataclass(record)
    assert not isinstance(record, type)
    values = {
        field.name: _overwrite(value, said) if is_dataclass(value) else said.get(field.name, value)
        for field in fields(record)
        for value in [getattr(record, field.name)]
    }
    return cast("FlagsT", replace(record, **values))
