"""Whoever ends a measurement ends it in order, with all that it has started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench import interrupts

ORDERLY = """
import pathlib, signal, sys
# Whoever runs the tests in the background lets nobody hear of it.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).write_text("in order")
    sys.exit(7)
"""
"""A program that clears up behind itself."""


@pytest.mark.parametrize("received", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_polite_signal_is_an_interrupt_for_a_while(received: signal.Signals) -> None:
    before = signal.getsignal(received)

    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        signal.raise_signal(received)

    assert signal.getsignal(received) == before


def test_the_exit_code_is_that_of_the_program() -> None:
    assert interrupts.run_apart([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3


def test_a_program_has_a_process_group_of_its_own_so_that_no_terminal_interrupts_it() -> None:
    leads = "import os; raise SystemExit(os.getpgrp() != os.getpid())"

    assert interrupts.run_apart([sys.executable, "-c", leads], 60) == 0


def test_a_program_is_ended_in_order(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [sys.executable, "-c", ORDERLY, str(told)]

    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        interrupts.end(child)

    assert child.returncode == 7
    assert told.read_text(encoding="utf-8") == "in order"


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as raised, interrupts.raised():
        interrupts.run_apart([sys.executable, "-c", "import signal; signal.pause()"], 0.01)

    assert raised.value.timeout == 0.01


def test_an_interrupt_reaches_the_program_once_and_waits_for_it(tmp_path: Path) -> None:
    told, ready = tmp_path / "told", tmp_path / "ready"
    os.mkfifo(ready)
    program = ORDERLY.replace('print("ready", flush=True)', f'open({str(ready)!r}, "w").close()')

    def interrupt() -> None:
        ready.read_bytes()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), interrupts.raised():
        interrupts.run_apart([sys.executable, "-c", program, str(told)], 60)

    assert told.read_text(encoding="utf-8") == "in order"
