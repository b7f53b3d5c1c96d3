"""Rotation: choose the checkpoints to write in this tick, and find those without an autoscaler.

Each autoscaler has its turn once in a rotation. Turns are spread over the ticks of a rotation, so
that writes are steady. Their rate depends on the size of the cluster, not on its changes. Two
kinds do not wait for their turn. A history that was never saved is saved at once: a young history
may be only ten minutes long. A restored one is saved as soon as it holds anything new, so that a
process that restarts again and again still learns. One kind skips turns: samples that changed no
recommendation are saved in every third rotation.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from trimtab.core.model.autoscalers import AutoscalerName

QUIET_ROTATIONS: Final = 3
"""Number of rotations in which an autoscaler with an unchanged recommendation has one turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The position of an autoscaler in the rotation."""

    since: datetime
    """When it was last saved, or first seen: anything learned since then is not saved."""
    is_saved: bool = False
    """True if it was ever saved."""
    samples: int = 0
    """Number of samples that were known when it was last saved."""
    first_save_until: datetime | None = None
    """Until when a restored history that holds nothing new yet is tried in every tick.

    None once it was saved by this process, or had nothing to save until then.
    """


def list_due(
    turns: Mapping[AutoscalerName, Turn],
    now: datetime,
    *,
    rotation: timedelta,
    tick: timedelta,
    young: AbstractSet[AutoscalerName] = frozenset(),
    quiet: AbstractSet[AutoscalerName] = frozenset(),
) -> list[AutoscalerName]:
    """Return the autoscalers that are saved now, those that waited longest first.

    First come autoscalers with a container that was never saved, then those that were restored and
    not saved since. Then comes the fair share of one tick of those whose last turn was not just
    now. Last come those that would otherwise wait longer than a rotation. Quiet autoscalers
    recommend what they did when they were last saved; their rotation is longer.
    """
    # False sorts before True: what was never saved comes first. Names break ties, so that the order
    # does not depend on that of a dict.
    order = sorted(turns, key=lambda name: (turns[name].is_saved, turns[name].since, name))
    first = [name for name in order if name in young]
    settled = [name for name in order if name not in young]
    restored = [name for name in settled if turns[name].first_save_until is not None]
    others = [name for name in settled if turns[name].first_save_until is None]
    moving = {name: turns[name] for name in others if name not in quiet}
    still = {name: turns[name] for name in others if name in quiet}
    return [
        *first,
        *restored,
        *_list_in_turn(moving, now, rotation, tick),
        *_list_in_turn(still, now, QUIET_ROTATIONS * rotation, tick),
    ]


def _list_in_turn(
    turns: Mapping[AutoscalerName, Turn], now: datetime, rotation: timedelta, tick: timedelta
) -> list[AutoscalerName]:
    """Return the fair share of one tick, then all that would wait longer than a rotation."""
    share = fair_share(len(turns), rotation=rotation, tick=tick)
    fair = [name for name, turn in turns.items() if _may_be_saved(turn, now, rotation)][:share]
    taken = set(fair)
    late = [
        name
        for name, turn in turns.items()
        if name not in taken and now - turn.since > rotation - tick
    ]
    return fair + late


def awaits_news(turn: Turn, now: datetime) -> bool:
    """Return True if a restored history without anything new is tried again in the next tick."""
    return turn.first_save_until is not None and now < turn.first_save_until


def fair_share(count: int, *, rotation: timedelta, tick: timedelta) -> int:
    """Return the number of turns in one tick, if each of `count` has one turn in a rotation."""
    # Rounded up: rounded down, a small cluster would have no turn at all.
    return ceil(count * min(1.0, tick / rotation))


def spread_turns(
    names: Sequence[AutoscalerName], now: datetime, *, rotation: timedelta, tick: timedelta
) -> dict[AutoscalerName, datetime]:
    """Return start times that spread the turns of autoscalers that were all saved at once."""
    # One tick less than a rotation: the oldest is due at once and the youngest in time.
    span = max(timedelta(), rotation - tick)
    return {name: now - span * place / len(names) for place, name in enumerate(names)}


def list_by_worth(
    turns: Mapping[AutoscalerName, Turn],
    samples: Mapping[AutoscalerName, int],
    young: AbstractSet[AutoscalerName],
) -> list[AutoscalerName]:
    """List all autoscalers, the greatest possible loss first: the young, then most unsaved samples.

    `samples` holds the number that each knows now.
    """
    return sorted(
        turns,
        key=lambda name: (
            name not in young,
            turns[name].samples - samples.get(name, 0),
            turns[name].since,
            name,
        ),
    )


def find_orphans(
    owners: Iterable[AutoscalerName],
    existing: AbstractSet[AutoscalerName],
    unreadable: AbstractSet[AutoscalerName],
) -> set[AutoscalerName]:
    """Find the autoscalers that have checkpoints but no longer exist.

    An object that cannot be read still exists. If even its name is unreadable, it may be any
    autoscaler of its namespace.
    """
    # An autoscaler that is listed but cannot be decoded still owns its checkpoints
    # (decision 0008).
    nameless = {one.namespace for one in unreadable if not one.name}
    if "" in nameless:
        return set()
    return {
        owner
        for owner in owners
        if owner not in existing and owner not in unreadable and owner.namespace not in nameless
    }


def _may_be_saved(turn: Turn, now: datetime, rotation: timedelta) -> bool:
    # Rounded-up shares come around early; half a rotation keeps a turn from coming twice.
    return not turn.is_saved or now - turn.since >= rotation / 2
