"""Claims about a real agent that is killed as soon as its answer is said: the answer is its message's, and no other's."""

import os
import signal
import time
from pathlib import Path

from support.daemon_process import RunningDaemon
from support.gateway_e2e import TelegramUser
from support.real_clients import ClaudeHome, wait_for
from support.telegram_server import BotApi
from wakeful.core.managed_session import SESSION_VARIABLE
from wakeful.linux import proc

# `WAKEFUL_ENDURANCE=1` plays as many as were reported: nine of ten messages lost their answers.
ROUNDS, AT_ONCE = (10, 10) if "WAKEFUL_ENDURANCE" in os.environ else (2, 1)
# The client writes its log every 100 ms: by then the prompt is in it, and the answer never will be.
DELAY_SECONDS = 0.4
# So long is the agent busy with what the healer told it: the next message comes in between.
BUSY_SECONDS = 1.5


def ask(phone: TelegramUser, number: int) -> None:
    """One message; whoever goes on with its turn says something else, and takes longer."""
    answer = {"text": f"Answer number {number}.", "delay": DELAY_SECONDS}
    phone.ask(answer, {"text": f"Went on after {number}.", "delay": BUSY_SECONDS})


def read(output: Path) -> bytes:
    """A process that is brought back begins another file."""
    try:
        return output.read_bytes()
    except FileNotFoundError:
        return b""


def kill_at_its_result(phone: TelegramUser, number: int) -> None:
    """`kill -9` of the client, within a millisecond of the line that ends its turn."""
    run = Path(phone.daemon.environ["WAKEFUL_HOME"]) / "run"
    ends = f'"result":"Answer number {number}."'.encode()

    def working() -> tuple[Path, int] | None:
        for output in run.glob("claude-*/out.jsonl"):
            found = proc.processes_with_variable(SESSION_VARIABLE, output.parent.name, os.getuid())
            if found:
                return output, found[0].pid
        return None

    output, pid = phone.until(working, f"agent for {number}")
    deadline = time.monotonic() + 15
    while ends not in read(output):
        if not Path(f"/proc/{pid}").exists():
            # The one before was still on its way out.
            output, pid = phone.until(working, f"agent for {number}")
        assert time.monotonic() < deadline, f"no answer {number}: {phone.words()}"
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)


def wait_until_it_goes_on(claude: ClaudeHome, times: int) -> None:
    """Until the model was asked for the second step so often: by an agent that the healer brought back."""
    requests = claude.model.requests
    wait_for(lambda: sum(each.step == 1 for each in requests) >= times or None, "agent that goes on", 20)


def test_every_message_gets_its_own_answer_though_the_agent_is_killed_after_each(
    claude: ClaudeHome, daemon: RunningDaemon, api: BotApi
) -> None:
    """The healer has brought it back and told it to go on when the next message comes: none is lost, none said twice."""
    phone = TelegramUser(api, daemon, claude, "edit_seconds = 0.1\n")
    for number in range(ROUNDS):
        ask(phone, number)
        kill_at_its_result(phone, number)
        wait_until_it_goes_on(claude, times=number + 1)
    phone.ask({"text": f"Answer number {ROUNDS}."})
    phone.sees(f"Answer number {ROUNDS}.")
    assert phone.words() == [f"Answer number {number}." for number in range(ROUNDS + 1)]


def test_the_next_message_gets_its_own_answer_though_nobody_has_seen_the_agent_die(
    claude: ClaudeHome, daemon: RunningDaemon, api: BotApi
) -> None:
    """It comes at once: before the healer, and maybe before anybody listened to the first one."""
    phone = TelegramUser(api, daemon, claude, "edit_seconds = 0.1\n")
    for number in range(AT_ONCE):
        ask(phone, number)
        kill_at_its_result(phone, number)
    phone.ask({"text": f"Answer number {AT_ONCE}."})
    phone.sees(f"Answer number {AT_ONCE}.")
    assert phone.words() == [f"Answer number {number}." for number in range(AT_ONCE + 1)]
