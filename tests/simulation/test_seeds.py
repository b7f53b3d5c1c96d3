"""The whole stack under faults: seeds that are always run, seeds that once failed, fresh ones."""

from dataclasses import replace

import pytest

from trimtab.simulation.runs import Report, run_seed
from trimtab.simulation.scenarios import Size

BRIEF = Size(workloads=(2, 4), disturbed_hours=(2, 3))
AS_THEN = replace(BRIEF, horizontal_share=0)
"""The same as when the seeds below failed: nothing was scaled horizontally."""
TROUBLE_ONLY = Size(settling_hours=0, quiet_hours=0, horizontal_share=0)
"""The usual runs of then up to the moment at which all faults have ended."""
UNTIL_MENDED = Size(settling_hours=0, quiet_hours=0)
"""The usual runs of now up to that moment."""
THREE_HOURS = Size(disturbed_hours=(3, 3), horizontal_share=0)


def told(report: Report) -> str:
    return "\n".join(report.lines())


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_rule_is_broken_in_the_runs_of_the_usual_seeds(seed: int) -> None:
    report = run_seed(seed, BRIEF)

    assert report.violations == (), told(report)


def test_seed_3_a_recommender_that_crashes_forgets_no_memory_of_a_job_that_has_ended() -> None:
    report = run_seed(3, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_9_a_recommender_that_was_cut_off_writes_over_nothing_when_it_leads_again() -> None:
    report = run_seed(9, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_34_a_pod_whose_labels_flap_has_a_window_for_each_set_of_them() -> None:
    report = run_seed(34, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_69_pods_that_restart_wait_for_each_other_though_answers_are_lost() -> None:
    report = run_seed(69, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_93_readings_of_no_memory_make_no_history_lighter() -> None:
    report = run_seed(93, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_110_an_updater_that_crashes_remembers_whom_it_has_just_disturbed() -> None:
    report = run_seed(110, THREE_HOURS)

    assert report.violations == (), told(report)


def test_seed_150_a_full_quota_keeps_no_pod_boosted() -> None:
    report = run_seed(150, UNTIL_MENDED)

    assert report.violations == (), told(report)


def test_seed_293_no_pod_is_restarted_while_the_answer_about_another_is_under_way() -> None:
    report = run_seed(293, UNTIL_MENDED)

    assert report.violations == (), told(report)


def test_seed_442_new_jobs_do_not_hide_that_evictions_change_nothing() -> None:
    report = run_seed(442, UNTIL_MENDED)

    assert report.violations == (), told(report)


def test_seed_503_a_recommender_that_crashes_counts_no_kill_again_and_again() -> None:
    report = run_seed(503, THREE_HOURS)

    assert report.violations == (), told(report)


def test_seed_564_a_successor_that_comes_late_is_not_up_before_it_is_ready() -> None:
    # A quota was full for a quarter of an hour: nobody waited for the successors any more.
    report = run_seed(564, Size(settling_hours=1, quiet_hours=0))

    assert report.violations == (), told(report)


def test_seed_592_kills_of_a_pod_that_never_runs_move_no_target_to_and_fro() -> None:
    report = run_seed(592, Size(quiet_hours=1))

    assert report.violations == (), told(report)


def test_seed_663_what_was_read_before_a_pod_was_there_is_not_counted_again() -> None:
    report = run_seed(663, UNTIL_MENDED)

    assert report.violations == (), told(report)


def test_seed_677_a_resize_that_restarts_a_container_makes_no_older_kill_larger() -> None:
    report = run_seed(677, UNTIL_MENDED)

    assert report.violations == (), told(report)


def test_seed_596883236_admission_that_restarts_knows_the_owners_of_the_first_pods() -> None:
    report = run_seed(596883236, AS_THEN)

    assert report.violations == (), told(report)


def test_seed_700010_an_updater_that_was_cut_off_asks_how_old_a_new_lease_is() -> None:
    report = run_seed(700010, TROUBLE_ONLY)

    assert report.violations == (), told(report)


def test_seed_720000_an_updater_with_a_stale_view_ends_no_boost_twice() -> None:
    report = run_seed(720000, TROUBLE_ONLY)

    assert report.violations == (), told(report)


@pytest.mark.parametrize("seed", [11, 12])
def test_no_rule_is_broken_where_most_workloads_are_scaled_horizontally(seed: int) -> None:
    report = run_seed(seed, replace(BRIEF, horizontal_share=0.8))

    assert report.violations == (), told(report)


def test_no_rule_is_broken_in_the_run_of_a_fresh_seed(fresh_seed: int) -> None:
    report = run_seed(fresh_seed, BRIEF)

    assert report.violations == (), told(report)
