"""The parent of one program: it ends the program as soon as nobody holds its own input any more.

Whoever starts a program holds the other end of that pipe. Closing it is how a program is ended; a
holder that was killed, by whatever signal, has closed it too. So nothing outlives a test run.

Started by path, without our packages: `python -I -S supervisor.py PROGRAM FLAG...`.
"""

import os
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 5
PAUSE, RESUME = signal.SIGUSR1, signal.SIGUSR2
_PASSED_ON: dict[int, int] = {
    signal.SIGTERM: signal.SIGTERM,
    PAUSE: signal.SIGSTOP,
    RESUME: signal.SIGCONT,
}


def main() -> int:
    """Run the program of the command line; its exit code, or 128 and the signal that ended it."""
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL) as program:
        for received in _PASSED_ON:
            signal.signal(received, lambda it, _: program.send_signal(_PASSED_ON[it]))
        threading.Thread(target=_end_with_input, args=(program,), daemon=True).start()
        code = program.wait()
    return code if code >= 0 else 128 - code


def _end_with_input(program: subprocess.Popen[bytes]) -> None:
    # Not sys.stdin: a thread that waits inside its buffer would stop the interpreter from leaving.
    while os.read(0, 1):
        pass
    program.terminate()
    # One that stands still would not even hear it.
    program.send_signal(signal.SIGCONT)
    try:
        program.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()


if __name__ == "__main__":
    sys.exit(main())
