"""`make cluster`: a cluster to try things on, until Ctrl-C; `make cluster-down` ends it too.

`make image` packs the image of our components.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from rig import (
    building,
    certificates,
    component_image,
    controlplane,
    debian,
    locks,
    processes,
    programs,
    progress,
    waiting,
)

_EXPECTED: Final = (
    building.BuildError,
    debian.PackageError,
    programs.ProgramError,
    progress.ProgressError,
    processes.ProcessError,
    certificates.CertificateError,
    controlplane.RequestError,
    waiting.WaitError,
)
_DOWN_SECONDS: Final = 60
_USAGE: Final = """\
python -m rig                  a cluster on loopback, until Ctrl-C
python -m rig down             end the cluster that runs
python -m rig image ARCHIVE    pack the image of our components"""


def main(words: list[str]) -> int:
    """Run a cluster until told to stop, stop the one that runs, or pack an image.

    1 on failure, 2 if the words mean nothing.
    """
    try:
        match words:
            case ["down"]:
                return _end()
            case ["image", archive]:
                return _pack(Path(archive))
            case []:
                return _run()
            case ["--help" | "-h"]:
                _say(_USAGE)
                return 0
            case _:
                sys.stderr.write(f"rig: not understood: {' '.join(words)}\n{_USAGE}\n")
                return 2
    except _EXPECTED as error:
        sys.stderr.write(f"rig: {error}\n")
        return 1


def _run() -> int:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    try:
        with (
            locks.held(_record()) as tell,
            controlplane.running(*controlplane.Part, logs=_logs()) as plane,
        ):
            tell({"kubeconfig": str(plane.kubeconfig)})
            _say(
                f"The cluster is ready. In another shell:\n\n"
                f"  export KUBECONFIG={plane.kubeconfig}\n"
                f"  kubectl apply -f deploy/crds.yaml\n\n"
                f"Logs: {plane.logs}. Ctrl-C or `make cluster-down` ends it."
            )
            signal.pause()
    except locks.LockedError:
        running = locks.read_holder(_record()) or {}
        _say(f"A cluster runs already: export KUBECONFIG={running.get('kubeconfig', '(not yet)')}")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _end() -> int:
    running = locks.read_holder(_record())
    if running is None:
        _say("No cluster runs.")
        return 0
    os.kill(int(running["pid"]), signal.SIGTERM)
    waiting.wait_for(
        lambda: locks.read_holder(_record()),
        lambda holder: holder is None,
        patience_seconds=_DOWN_SECONDS,
    )
    _say("The cluster has ended.")
    return 0


def _pack(archive: Path) -> int:
    archive.parent.mkdir(parents=True, exist_ok=True)
    component_image.build(archive)
    _say(
        f"{component_image.NAME} is in {archive}. To bring it to a node:\n\n"
        f"  ctr --namespace k8s.io images import {archive}\n"
        f"  kind load image-archive {archive}"
    )
    return 0


def _record() -> Path:
    return building.cache_directory() / "cluster.json"


def _logs() -> Path:
    return building.cache_directory() / "cluster-logs"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
