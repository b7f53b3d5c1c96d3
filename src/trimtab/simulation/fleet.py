"""Many runs at once, on all cores: each seed is a run of its own."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from trimtab.simulation.runs import Report


def run_many(run: Callable[[int], Report], seeds: Sequence[int], *, jobs: int) -> Iterator[Report]:
    """The reports of all seeds, each as soon as it is there."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    # Ctrl-C reaches all processes of a terminal. A run would take it for the failure of a task, and
    # the pool would wait for all runs that have begun.
    by_default = (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(jobs, initializer=signal.signal, initargs=by_default) as pool:
        waiting = [pool.submit(run, seed) for seed in seeds]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            # Whoever has seen enough does not wait for the rest.
            pool.shutdown(wait=False, cancel_futures=True)
