"""Incidents of an independent run, one by one: none of them breaks a rule any more."""

import pytest
from simulation import incidents
from simulation.incidents import Incident, play

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeType

INCIDENTS = [
    pytest.param(
        incidents.refused_unboosts(UpdateMode.RECREATE),
        id="1: a refused unboost evicts no pod",
    ),
    pytest.param(
        incidents.refused_unboosts(UpdateMode.AUTO),
        id="1: a refused unboost evicts no pod in mode Auto",
    ),
    pytest.param(
        incidents.refused_unboosts(UpdateMode.IN_PLACE_OR_RECREATE),
        id="1: a refused unboost evicts no pod that could be resized",
    ),
    pytest.param(
        incidents.boost_above_limit_range(LimitRangeType.CONTAINER),
        id="2: a boost stays below the limit range of containers",
    ),
    pytest.param(
        incidents.boost_above_limit_range(LimitRangeType.POD),
        id="2: a boost stays below the limit range of pods",
    ),
    pytest.param(incidents.boost_above_quota(), id="2: a boost leaves room in a quota"),
    pytest.param(
        incidents.upscale_for_a_mebibyte(), id="3: UpscaleOnly restarts nothing for a mebibyte"
    ),
    pytest.param(
        incidents.growth_of_a_single_replica(), id="4: a single replica grows in place at once"
    ),
    pytest.param(
        incidents.growth_beside_a_missing_replica(),
        id="4: pods grow in place while a replica is missing",
    ),
    pytest.param(
        incidents.gate_off_at_the_updater(UpdateMode.RECREATE),
        id="5: with the gate off no pod is evicted for its boost",
    ),
    pytest.param(
        incidents.gate_off_at_the_updater(UpdateMode.IN_PLACE_OR_RECREATE),
        id="5: with the gate off no boost is taken back in place",
    ),
    pytest.param(
        incidents.custom_owner(has_scale=False),
        id="6: pods under a custom resource without a scale are sized",
    ),
    pytest.param(
        incidents.custom_owner(has_scale=True),
        id="6: pods under a custom resource with a scale are sized",
    ),
    pytest.param(incidents.foreign_kind(), id="6: pods of a foreign kind are always sized"),
    pytest.param(incidents.copied_pods(), id="7: the status of a new pod does not matter"),
    pytest.param(
        incidents.end_of_a_boost(UpdateMode.INITIAL),
        id="8: the end of a boost leaves memory alone",
    ),
    pytest.param(
        incidents.end_of_a_boost(UpdateMode.RECREATE, requires_growth=True),
        id="8: the end of a boost leaves other containers alone",
    ),
    pytest.param(incidents.factor_of_one(), id="9: a factor of 1 is no boost"),
    pytest.param(
        incidents.refused_resizes_of_unsized_pods(),
        id="10: evictions end where resizes are refused and successors unsized",
    ),
    pytest.param(
        incidents.sizes_that_never_get_ready(), id="10: a workload that gets worse is left alone"
    ),
    pytest.param(
        incidents.beside_daemons(UpdateMode.RECREATE),
        id="11: a new pod fits on a node beside its daemons",
    ),
    pytest.param(
        incidents.beside_daemons(UpdateMode.IN_PLACE_OR_RECREATE),
        id="11: a resize fits on its own node",
    ),
    pytest.param(incidents.growth_that_goes_on(), id="12: growth in place waits for no cool-down"),
    pytest.param(
        incidents.crash_loop(UpdateMode.RECREATE),
        id="12: pods that all crash are evicted at once",
    ),
    pytest.param(
        incidents.crash_loop(UpdateMode.RECREATE, has_budget=True),
        id="12: pods that all crash are helped in place under a budget",
    ),
]


@pytest.mark.parametrize("incident", INCIDENTS)
def test_no_rule_is_broken_in_what_once_hurt_pods(incident: Incident) -> None:
    report = play(incident)

    assert report.violations == (), "\n".join(report.lines()[:20])
