from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import (
    ChildCrashError,
    ChildMemoryError,
    ChildTimeoutError,
    ExternalDataError,
    InternalError,
    OnnxsmithError,
    RuntimeFailure,
)
from onnxsmith.process import Supervised, run_supervised

LIMITS = LimitsConfig(timeout_s=60)
TESTS = Path(__file__).parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and /proc")


def call(name: str, *args: object, limits: LimitsConfig = LIMITS, **kwargs: object) -> Supervised:
    return run_supervised(f"child_functions:{name}", *args, limits=limits, what="the test", **kwargs)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 5) -> list[int]:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [pid for pid in pids if alive(pid)]


def read_pids(file: Path, seconds: float = 20) -> list[int]:
    deadline = time.monotonic() + seconds
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [int(pid) for pid in file.read_text().split()]


def test_value_comes_back():
    answer = call("add", 2, b=3)
    assert answer.value == 5
    assert answer.log == ""


def test_child_is_another_process_with_an_empty_standard_input():
    facts = call("facts").value
    assert facts["pid"] != os.getpid()
    assert facts["cwd"] == str(Path.cwd())
    assert facts["stdin"] == ""


def test_large_payloads_both_ways():
    payload = os.urandom(1 << 20) * 100
    assert call("echo", payload).value == payload


def test_progress_arrives():
    seen = []
    call("steps", 3, 0.15, progress=lambda *step: seen.append(step))
    assert seen == [("stepping", 1, 3), ("stepping", 2, 3), ("stepping", 3, 3)]


def test_progress_is_thinned_and_always_has_the_last_step():
    seen = []
    call("steps", 2000, 0.0, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("stepping", 2000, 2000)
    assert len(seen) < 200


def test_error_in_progress_callback_ends_the_child(tmp_path):
    def fail(*step: object) -> None:
        raise BrokenPipeError("the terminal is gone")

    with pytest.raises(BrokenPipeError, match="the terminal is gone"):
        call("steps", 100, 0.1, progress=fail)


def test_chatter_goes_to_the_log_and_nowhere_else(capfd):
    answer = call("chatter")
    assert answer.value == "quiet"
    assert {"from Python", "from native code", "to standard error", "from a grandchild"} <= set(answer.log.splitlines())
    assert capfd.readouterr() == ("", "")


def test_a_flood_of_output_keeps_its_end():
    answer = call("flood", 20)
    assert answer.log.endswith("xxxthe end")
    assert len(answer.log) <= 1 << 18


def test_our_errors_keep_type_message_and_hint():
    with pytest.raises(ExternalDataError) as caught:
        call("ours")
    assert caught.value.message == "weights.bin is too short."
    assert caught.value.hint == "Fetch it again."
    assert caught.value.exit_code == 1


def test_foreign_errors_become_internal_with_the_traceback():
    with pytest.raises(InternalError, match="the test failed in its child process") as caught:
        call("foreign")
    assert "ZeroDivisionError: a foreign fault" in str(caught.value)
    assert "in foreign" in str(caught.value)
    assert caught.value.exit_code == 2


def test_unknown_function_is_internal():
    with pytest.raises(InternalError, match="no_such_function"):
        call("no_such_function")


def test_native_crash_is_named_and_shows_the_last_output():
    with pytest.raises(ChildCrashError, match=r"crashed in the child process \(SIGSEGV\)") as caught:
        call("segfault")
    assert "about to fall" in str(caught.value.hint)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGTERM"])
def test_signals_are_named(name):
    with pytest.raises(ChildCrashError, match=name):
        call("kill_self", getattr(signal, name))


def test_signal_without_a_name():
    with pytest.raises(ChildCrashError, match=rf"signal {signal.SIGRTMIN + 3}"):
        call("kill_by_signal_of_no_name")


def test_being_killed_is_taken_for_memory():
    with pytest.raises(ChildMemoryError, match="most likely memory ran out"):
        call("kill_self", signal.SIGKILL)


@pytest.mark.parametrize(("function", "args", "code"), [("leave", (7,), 7), ("leave", (0,), 0), ("system_exit", (), 3)])
def test_leaving_early_is_an_error(function, args, code):
    with pytest.raises(ChildCrashError, match=rf"ended without an answer \(exit code {code}\)"):
        call(function, *args)


def test_memory_limit():
    with pytest.raises(ChildMemoryError, match=r"its limit of 256 MiB"):
        call("allocate", 1024, limits=LimitsConfig(timeout_s=60, memory_mb=256))
    assert call("allocate", 64, limits=LimitsConfig(timeout_s=60, memory_mb=256)).value == 64 << 20


def test_native_code_out_of_memory_under_a_limit():
    with pytest.raises(ChildMemoryError, match=r"its limit of 256 MiB: .*bad_alloc"):
        call("native_out_of_memory", limits=LimitsConfig(timeout_s=60, memory_mb=256))
    with pytest.raises(ChildCrashError, match="SIGABRT"):
        call("native_out_of_memory")


def test_peak_memory_is_the_childs_own():
    ballast = bytearray(400 << 20)
    quiet = call("add", 1, 1).peak_memory_mb
    busy = call("allocate", 200).peak_memory_mb
    del ballast
    assert quiet is not None
    assert busy is not None
    assert 5 < quiet < 200
    assert 190 < busy - quiet < 260


def test_timeout_ends_the_child_and_what_it_started(tmp_path):
    pids = tmp_path / "pids"
    started = time.monotonic()
    with pytest.raises(ChildTimeoutError, match=r"limit of 1\.5 s") as caught:
        call("hang", pids, limits=LimitsConfig(timeout_s=1.5))
    assert time.monotonic() - started < 15
    assert "limits.timeout_s" in str(caught.value.hint)
    assert wait_until_gone(read_pids(pids)) == []


def test_unpicklable_argument():
    with pytest.raises(InternalError, match="arguments cannot be sent") as caught:
        call("echo", threading.Lock())
    assert "lock" in str(caught.value)


def test_unpicklable_value():
    with pytest.raises(InternalError, match="cannot pickle"):
        call("unpicklable")


def test_value_that_cannot_be_read_back():
    with pytest.raises(InternalError, match="answer cannot be read: ValueError: not to be made again"):
        call("unreadable")


def test_argument_that_only_the_parent_knows(monkeypatch):
    class Local:
        pass

    Local.__qualname__ = "Local"
    monkeypatch.setattr(sys.modules["__main__"], "Local", Local, raising=False)
    Local.__module__ = "__main__"
    with pytest.raises(InternalError, match="Local"):
        call("echo", pickle.loads(pickle.dumps(Local())))


def test_no_child_can_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(RuntimeFailure, match="no child process could be started: No such file"):
        call("add", 1, 1)


def test_children_leak_no_file_descriptors(tmp_path):
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    call("add", 1, 1)
    before = count()
    for function, args in [("add", (1, 1)), ("foreign", ()), ("leave", (3,)), ("unpicklable", ())]:
        with contextlib.suppress(OnnxsmithError):
            call(function, *args)
    assert count() == before


def test_threads():
    results: dict[int, int] = {}

    def work(number: int) -> None:
        results[number] = call("add", number, 100).value

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: number + 100 for number in range(4)}


def script(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    """A script without a main guard, that may import `child_functions`."""
    file = tmp_path / "script.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from onnxsmith.config import LimitsConfig\n"
        "from onnxsmith.process import run_supervised\n"
        "limits = LimitsConfig()\n" + textwrap.dedent(body)
    )
    return subprocess.Popen(
        [sys.executable, str(file)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_script_without_a_main_guard(tmp_path):
    parent = script(
        tmp_path,
        """
        print("once")
        print(run_supervised("child_functions:add", 1, 2, limits=limits, what="adding").value)
        """,
    )
    out, error = parent.communicate(timeout=60)
    assert (out, error) == ("once\n3\n", "")


def test_ctrl_c_leaves_no_child(tmp_path):
    pids = tmp_path / "pids"
    parent = script(tmp_path, f"run_supervised('child_functions:hang', {str(pids)!r}, limits=limits, what='hanging')")
    started = read_pids(pids)
    parent.send_signal(signal.SIGINT)
    _, error = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in error
    assert wait_until_gone(started) == []


@pytest.mark.parametrize(
    "function",
    [
        "hang",
        pytest.param(
            "hang_with_lock", marks=pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's help")
        ),
    ],
)
def test_death_of_the_parent_ends_the_child_and_what_it_started(tmp_path, function):
    pids = tmp_path / "pids"
    parent = script(tmp_path, f"run_supervised('child_functions:{function}', {str(pids)!r}, limits=limits, what='x')")
    started = read_pids(pids)
    assert all(map(alive, started))
    parent.kill()
    parent.communicate(timeout=20)
    assert wait_until_gone(started) == []
