"""Executors of `trimtab backtest`: processes of this machine, or an existing Dask cluster."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from typing import Final, Protocol, Self, cast

from trimtab.backtest.runs import WorkerPool
from trimtab.cli.errors import FailedError, UsageError

_PATIENCE_SECONDS: Final = 10


class _Client(Protocol):
    """The part of a Dask client that is used here."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def ncores(self) -> dict[str, int]: ...

    def get_executor(self) -> Executor: ...


class _Connect(Protocol):
    def __call__(self, address: str, *, timeout: int) -> _Client: ...


class _Distributed(Protocol):
    """The part of `dask.distributed`, an optional extra, that is used here."""

    Client: _Connect


@contextmanager
def open_pool(jobs: int | None, scheduler: str) -> Iterator[WorkerPool]:
    """Yield a pool of `jobs` workers, by default one per core, of this machine or of Dask."""
    if not scheduler:
        yield WorkerPool(jobs or os.cpu_count() or 1)
        return
    try:
        distributed = cast("_Distributed", import_module("distributed"))
    except ImportError as error:
        raise UsageError("--scheduler needs the extra: pip install 'trimtab[dask]'") from error
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE_SECONDS)
    except (OSError, ValueError) as error:
        raise FailedError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client:
        cores = sum(client.ncores().values())
        if not cores:
            raise FailedError(f"the Dask cluster at {scheduler} has no workers")
        with client.get_executor() as pool:
            yield WorkerPool(jobs or cores, pool)
