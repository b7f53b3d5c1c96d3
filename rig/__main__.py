"""`make cluster`: a control plane to try things on, until Ctrl-C."""

import signal
import sys
from types import FrameType

from rig import certificates, controlplane, processes, programs

_EXPECTED = (programs.ProgramError, processes.ProcessError, certificates.CertificateError)


def main() -> int:
    """Run a control plane until told to stop; 1 if there cannot be one."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    try:
        with controlplane.running() as plane:
            sys.stdout.write(
                f"The control plane is ready. In another shell:\n\n"
                f"  export KUBECONFIG={plane.kubeconfig}\n"
                f"  kubectl apply -f deploy/crds.yaml\n\n"
                f"Logs are beside it in {plane.directory}. Ctrl-C ends it and removes everything.\n"
            )
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except _EXPECTED as error:
        sys.stderr.write(f"rig: {error}\n")
        return 1
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
