"""Claims about clients to come: another client needs one file."""

import os
import shutil
import signal
import sys
from pathlib import Path

from support import third_provider
from support.daemon_process import RunningDaemon
from support.gateway_e2e import TelegramUser
from support.real_clients import ClaudeHome, ClientHome
from support.telegram_server import BotApi
from wakeful.testing.scripted_model import ScriptedModel

PARROT = """
import json, sys, time
prompt = sys.stdin.read()
print(json.dumps({"says": "You said: "}), flush=True)
if prompt.startswith("sleep"):
    time.sleep(60)
if prompt.startswith("fall"):
    print(json.dumps({"failed": "I fell off"}), flush=True)
print(json.dumps({"says": prompt}), flush=True)
print(json.dumps({"ended": True, "tokens": [3, 4], "cost_usd": 0.25}), flush=True)
"""
# As if it lay in the folder of the others, for every Python of this home.
JOINS = """
import wakeful.integrations.providers as providers
providers.__path__.append({folder!r})
providers.NAMES = providers._list_names()
"""


class ParrotHome(ClientHome):
    """A home with another client's program, and the one file about it."""

    client = ClaudeHome.client

    def environ(self) -> dict[str, str]:
        program, site = self.home / "bin" / "parrot", self.home / "site"
        for folder in (program.parent, site, site / "more"):
            folder.mkdir(exist_ok=True)
        program.write_text(f"#!{sys.executable} -SI{PARROT}")
        program.chmod(0o755)
        shutil.copy(Path(third_provider.__file__), site / "more" / "parrot.py")
        (site / "sitecustomize.py").write_text(JOINS.format(folder=str(site / "more")))
        path = f"{program.parent}:{os.environ['PATH']}"
        return super().environ() | {"PATH": path, "PYTHONPATH": str(site)}


def test_a_third_provider_is_one_file(api: BotApi, daemon: RunningDaemon, tmp_path: Path) -> None:
    """Configured, answered, streamed, stopped, failed, missed and resumed, with a cost and a place in the list."""
    with ScriptedModel() as model, ParrotHome(tmp_path, model) as home:
        phone = TelegramUser(
            api, daemon, home, "edit_seconds = 0.1\n[gateway.parrot]\nfailures_max = 5", "parrot"
        )
        phone.says("Polly wants a cracker.")
        first = phone.sees("You said: Polly wants a cracker.")
        phone.press(first, "Context")
        context = phone.sees("Cost of this answer: 0.2500 USD").text
        assert ("Provider: parrot" in context, "3 in, 4 out" in context) == (True, True)
        (session,) = daemon.sessions()
        assert (session["provider"], session["managed"]) == ("parrot", True)
        phone.says("sleep on it")
        phone.sees("You said: …")
        phone.says("/stop")
        phone.sees("You said:\n\nStopped.")
        phone.says("fall")
        phone.sees("Something went wrong with the agent.")
        phone.says("Polly wants it after all.")
        phone.sees("You said: Polly wants it after all.")
        phone.says("/session")
        assert "Provider: parrot, breaker closed" in phone.sees("Key: chat:").text
        assert len(daemon.sessions()) == 1
        os.kill(phone.gateway_pid, signal.SIGKILL)
        phone.says("Polly is still here.")
        phone.sees("You said: Polly is still here.")
