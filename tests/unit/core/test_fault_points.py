"""Fault points: free of effect without a plan, exact with one."""

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from wakeful.core import fault_points as faults
from wakeful.core.fault_points import BadFault, InjectedFault, fault_point
from wakeful.testing.fault_plan import FaultPlan

REACH_THRICE = "from wakeful.core.fault_points import fault_point\nfor n in (1, 2, 3): fault_point('a.b'); print(n, flush=True)"


def reach_in_child(plan: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"WAKEFUL_FAULTS": plan}
    argv = [sys.executable, "-c", REACH_THRICE]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_without_a_plan_nothing_happens() -> None:
    """A point may be reached at any time outside tests."""
    before = faults.install(None)
    fault_point("store.commit")
    faults.install(before)


def test_a_plan_records_every_point_in_order() -> None:
    """A test can learn which points there are by running once without faults."""
    with FaultPlan() as plan:
        for point in ("a", "b", "a"):
            fault_point(point)
    fault_point("after")
    assert plan.points == ["a", "b", "a"]


def test_a_fault_is_due_at_its_reach_only() -> None:
    """The n-th reach of that point fails, no earlier, no later and no other one."""
    with FaultPlan(("a", 2, "raise:ENOSPC")):
        fault_point("a")
        fault_point("b")
        with pytest.raises(OSError, match="No space left") as caught:
            fault_point("a")
        fault_point("a")
    assert caught.value.errno == errno.ENOSPC


def test_the_plan_before_is_in_force_again() -> None:
    """Plans nest, also when the inner one ends by an error."""
    with FaultPlan() as outer:
        with pytest.raises(OSError, match="Input/output"), FaultPlan(("a", 1, "raise:EIO")):
            fault_point("a")
        fault_point("b")
    assert outer.points == ["b"]


def test_a_stall_holds_one_thread_until_it_is_released() -> None:
    """The stalled thread goes on when the test says so, and others are not blocked."""
    went_on = threading.Event()

    def stall() -> None:
        fault_point("a")
        went_on.set()

    with FaultPlan(("a", 1, "stall")) as plan:
        thread = threading.Thread(target=stall)
        thread.start()
        plan.wait_for("a")
        fault_point("b")
        assert not went_on.is_set()
        plan.release()
        thread.join(timeout=10)
    assert went_on.is_set()


def test_leaving_a_plan_releases_what_it_stalled() -> None:
    """A test that fails inside `with` leaves no thread behind."""
    thread = threading.Thread(target=lambda: fault_point("a"))
    with FaultPlan(("a", 1, "stall")) as plan:
        thread.start()
        plan.wait_for("a")
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_reaches_are_counted_across_threads() -> None:
    """A thousand reaches from four threads bring the thousandth's fault exactly once."""
    failed = []

    def hurry() -> None:
        for _ in range(250):
            try:
                fault_point("a")
            except OSError as error:
                failed.append(error.errno)

    with FaultPlan(("a", 1000, "raise:EIO")):
        threads = [threading.Thread(target=hurry) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == [errno.EIO]


def test_the_environment_kills_a_real_process() -> None:
    """kill is SIGKILL: nothing after the point runs, nothing is cleaned up."""
    ended = reach_in_child("x:1:raise:EIO,a.b:3:kill")
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "1\n2\n")


def test_the_environment_raises_in_a_real_process() -> None:
    """raise: and an errno's name is that OSError."""
    ended = reach_in_child("a.b:2:raise:EROFS")
    assert (ended.returncode, ended.stdout) == (1, "1\n")
    assert "Read-only file system" in ended.stderr


def test_an_empty_environment_is_no_plan() -> None:
    """Setting the variable to nothing is a way to unset it."""
    assert reach_in_child("").stdout == "1\n2\n3\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:1",
        "a:0:kill",
        "a:-1:kill",
        "a:x:kill",
        ":1:kill",
        "a:1:raise",
        "a:1:raise:EWHAT",
        "a:1:hug",
    ],
)
def test_a_fault_that_cannot_be_read_is_refused(text: str) -> None:
    """A misspelt plan must not look like one that held."""
    with pytest.raises(BadFault, match="name:n:action"):
        InjectedFault.parse(text)


def test_a_misspelt_environment_is_told_at_the_first_point() -> None:
    """The variable is read when a point is reached, and then its mistake is loud."""
    ended = reach_in_child("a.b=kill")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Invalid fault" in ended.stderr
