"""Rotation: whose checkpoints are written in this tick, and which ones belong to nobody.

Each autoscaler has its turn once in a rotation. Turns are spread over the ticks of a rotation, so
that writes come as a steady trickle whose height is that of the cluster, not of its changes. Two
kinds do not wait for their turn. What was never saved is saved at once: of a young history ten
minutes are all there is. What was restored is saved as soon as it holds anything new, so that a
process that is restarted again and again learns all the same. One kind skips turns: samples that
changed no recommendation are saved in every third rotation.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from trimtab.core.model.autoscalers import AutoscalerName

QUIET_ROTATIONS: Final = 3
"""An autoscaler whose recommendation stays has its turn once in so many rotations."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Where an autoscaler stands in the rotation."""

    since: datetime
    """When it was last saved, or first seen: what was learned since then is not saved."""
    is_saved: bool = False
    """Whether it was ever saved."""
    samples: int = 0
    """How many samples were known when it was last saved."""
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

    That is every autoscaler with a container that was never saved, then every one that was
    restored and not saved since, the fair share of one tick of those whose last turn was not just
    now, and every one that would otherwise wait longer than a rotation. Quiet ones recommend what
    they did when they were last saved; their rotation is longer.
    """
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
    """How many of so many have their turn in one tick, if all have it once in a rotation."""
    return ceil(count * min(1.0, tick / rotation))


def spread_turns(
    names: Sequence[AutoscalerName], now: datetime, *, rotation: timedelta, tick: timedelta
) -> dict[AutoscalerName, datetime]:
    """From when to count the turns of many that were saved at once, so that they part ways."""
    span = max(timedelta(), rotation - tick)
    return {name: now - span * place / len(names) for place, name in enumerate(names)}


def list_by_worth(
    turns: Mapping[AutoscalerName, Turn],
    samples: Mapping[AutoscalerName, int],
    young: AbstractSet[AutoscalerName],
) -> list[AutoscalerName]:
    """All of them, those first whose loss would be the greatest: the young, then most unsaved.

    The samples are what each knows now.
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
    """Of the autoscalers that checkpoints are for, those that are no more.

    An object that cannot be read is there all the same, and may be any where it does not even say
    its name.
    """
    nameless = {one.namespace for one in unreadable if not one.name}
    if "" in nameless:
        return set()
    return {
        owner
        for owner in owners
        if owner not in existing and owner not in unreadable and owner.namespace not in nameless
    }


def _may_be_saved(turn: Turn, now: datetime, rotation: timedelta) -> bool:
    return not turn.is_saved or now - turn.since >= rotation / 2
