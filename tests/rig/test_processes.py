"""Processes of the rig: they end with their block, and with a run that is killed."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rig import processes, supervisor, waiting
from rig.processes import ProcessError, Surroundings

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30

# Says its pid once it is there to stay, and notes when it is asked to leave.
POLITE = """\
import os, pathlib, signal, sys
def leave(*_):
    pathlib.Path("left").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
pathlib.Path("pid.new").write_text(str(os.getpid()))
pathlib.Path("pid.new").rename("pid")
while True:
    signal.pause()
"""
# A run in a process of its own: starts one program, says so, and waits.
RUN = """\
import pathlib, sys, signal
from rig import processes
# A shell that runs us in the background has this one ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
directory = pathlib.Path(sys.argv[1])
with processes.running(pathlib.Path(sys.executable), [str(directory / "it.py")], directory) as it:
    it.wait_until((directory / "pid").exists)
    print("ready", flush=True)
    signal.pause()
"""


def script(directory: Path, text: str) -> tuple[Path, list[str]]:
    file = directory / "it.py"
    file.write_text(text, encoding="utf-8")
    return Path(sys.executable), [str(file)]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def ends(pidfd: int) -> bool:
    """Whether the process ends before patience does."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(PATIENCE_SECONDS * 1000))


def read_pid(directory: Path) -> int:
    return int((directory / "pid").read_text(encoding="utf-8"))


def test_a_process_ends_with_its_block_even_on_an_error(tmp_path: Path) -> None:
    program, flags = script(tmp_path, POLITE)

    with suppress(KeyboardInterrupt), processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)
        started = is_alive(read_pid(tmp_path))
        raise KeyboardInterrupt

    assert started
    assert (tmp_path / "left").exists()
    assert not is_alive(read_pid(tmp_path))
    assert not is_alive(process.popen.pid)


def test_a_process_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = tmp_path / "impatient.py"
    source = Path(supervisor.__file__).read_text(encoding="utf-8")
    impatient.write_text(source.replace("GRACE_SECONDS = 5", "GRACE_SECONDS = 0.1"), "utf-8")
    monkeypatch.setattr(processes, "_SUPERVISOR", (sys.executable, "-I", "-S", str(impatient)))
    program, flags = script(tmp_path, POLITE.replace("    sys.exit(0)\n", ""))

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)

    assert not is_alive(read_pid(tmp_path))
    assert process.popen.returncode == 128 + signal.SIGKILL


def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    script(tmp_path, POLITE)
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        said = run.stdout.readline()
        watched = os.pidfd_open(read_pid(tmp_path))
        run.kill()

    assert said == b"ready\n"
    assert ends(watched)
    os.close(watched)


def test_a_supervisor_that_is_told_to_end_ends_its_program(tmp_path: Path) -> None:
    program, flags = script(tmp_path, POLITE)

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)
        process.popen.terminate()
        code = process.popen.wait(PATIENCE_SECONDS)

    assert code == 0
    assert not is_alive(read_pid(tmp_path))


def test_a_process_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    program, flags = script(tmp_path, "raise SystemExit('port is taken')")

    with (
        pytest.raises(ProcessError, match="port is taken"),
        processes.running(program, flags, tmp_path) as process,
    ):
        process.wait_until(lambda: False)


def test_a_process_that_never_becomes_ready_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_READY_SECONDS", 0)
    program, flags = script(tmp_path, POLITE)

    with (
        pytest.raises(ProcessError, match="not ready after 0 s"),
        processes.running(program, flags, tmp_path) as process,
    ):
        process.wait_until(lambda: False)


def test_logs_go_to_the_folder_that_is_given_for_them(tmp_path: Path) -> None:
    program, flags = script(tmp_path, "print('hello'); raise SystemExit(3)")
    logs = tmp_path / "logs"
    logs.mkdir()

    with processes.running(program, flags, tmp_path, logs=logs) as process:
        code = process.popen.wait(PATIENCE_SECONDS)

    assert code == 3
    assert process.log.parent == logs
    assert process.log.read_text(encoding="utf-8") == "hello\n"
    assert str(process.log) in process.last_words()


def test_a_process_sees_nothing_on_its_input_and_stands_in_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    program, flags = script(tmp_path, "import os, sys; print(sys.stdin.read(), os.getsid(0))")

    with processes.running(program, flags, tmp_path) as process:
        process.popen.wait(PATIENCE_SECONDS)

    assert process.log.read_text(encoding="utf-8").split() == [str(process.popen.pid)]


def test_a_process_that_is_started_again_has_a_new_pid_and_the_same_log(tmp_path: Path) -> None:
    program, flags = script(
        tmp_path, POLITE.replace("signal.signal", "print('started', flush=True); signal.signal")
    )

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)
        before = read_pid(tmp_path)
        (tmp_path / "pid").unlink()
        process.restart()
        process.wait_until((tmp_path / "pid").exists)
        after = read_pid(tmp_path)
        alive = is_alive(before), is_alive(after)

    assert alive == (False, True)
    assert process.log.read_text(encoding="utf-8") == "started\nstarted\n"


def read_state(pid: int) -> str:
    """The letter that the kernel has for it: T stands still."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]


def test_a_paused_process_stands_still_and_goes_on(tmp_path: Path) -> None:
    program, flags = script(tmp_path, POLITE)

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)
        pid = read_pid(tmp_path)
        with process.paused():
            paused = waiting.wait_for(lambda: read_state(pid), lambda state: state == "T")
        resumed = waiting.wait_for(lambda: read_state(pid), lambda state: state != "T")

    assert paused == "T"
    assert resumed in {"R", "S"}


def test_a_process_that_stands_still_can_be_ended(tmp_path: Path) -> None:
    program, flags = script(tmp_path, POLITE)

    with processes.running(program, flags, tmp_path) as process:
        process.wait_until((tmp_path / "pid").exists)
        process.popen.send_signal(supervisor.PAUSE)
        waiting.wait_for(lambda: read_state(read_pid(tmp_path)), lambda state: state == "T")

    assert (tmp_path / "left").exists()
    assert not is_alive(read_pid(tmp_path))


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended in order", "run was killed"])
def test_what_a_program_leaves_is_cleared_up_when_it_has_ended(
    tmp_path: Path, *, is_killed: bool
) -> None:
    script(tmp_path, POLITE)
    cleared = tmp_path / "cleared"
    # It notes whether the program was gone by then.
    afterwards = ["/bin/sh", "-c", f"test -e {tmp_path}/left && touch {cleared}"]
    surroundings = f"processes.Surroundings(afterwards={afterwards!r})"
    source = RUN.replace("directory) as it", f"directory, surroundings={surroundings}) as it")
    with subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        run.send_signal(signal.SIGKILL if is_killed else signal.SIGINT)

    waiting.wait_for(cleared.exists, bool)


def test_files_that_are_to_be_held_stay_open_until_the_end(tmp_path: Path) -> None:
    program, flags = script(tmp_path, POLITE)
    read_end, write_end = os.pipe()
    surroundings = Surroundings(held=[write_end])

    with processes.running(program, flags, tmp_path, surroundings=surroundings) as process:
        process.wait_until((tmp_path / "pid").exists)
        os.close(write_end)
        held = select.select([read_end], [], [], 0)[0]

    # Nobody holds the other end any more, so there is nothing to wait for.
    assert held == []
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_a_program_has_the_name_and_the_variables_that_it_is_given(tmp_path: Path) -> None:
    program, flags = script(tmp_path, "import os; print(os.environ['ANSWER'])")
    surroundings = Surroundings(environment={"ANSWER": "42"})

    with processes.running(
        program, flags, tmp_path, name="it", surroundings=surroundings
    ) as process:
        process.popen.wait(PATIENCE_SECONDS)

    assert (tmp_path / "it.log").read_text(encoding="utf-8") == "42\n"
