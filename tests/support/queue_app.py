"""An application with a queue, as the watchdog's tests need it: sessions and jobs in Redis, tool logs, and
callbacks."""

import json
from pathlib import Path
from typing import Any

from support.redis_server import RedisServer
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.critical_log import CriticalLog
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.callbacks import Callbacks
from wakeful.watchdog.loop import RedisWatch, connect
from wakeful.watchdog.parts import HealingControls, WatchSettings
from wakeful.watchdog.queue import Work

ISSUE = "https://github.com/acme/bots/issues/45"
CHAT = "-5294327191"
SESSION = "tg_popoto_-5294327191_4469"
WORK = f"popoto:{CHAT}:4469"


class ScriptedIssueTracker:
    """Files every issue at once, under one address."""

    def __init__(self) -> None:
        self.reports: list[IssueReport] = []

    async def file(self, report: IssueReport) -> FilingResult:
        self.reports.append(report)
        return FilingResult(ISSUE, "filed")


class QueueAppFixture:
    """The application in one folder, with its own Redis."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.server = server
        self.logs = folder / "logs"
        self.critical = CriticalLog(folder / "critical_events.jsonl")
        self.forge = ScriptedIssueTracker()
        self.sent: list[tuple[str, str]] = []
        self.alerts: list[str] = []
        self.work: list[Work] = []
        self.folder = folder
        self.now = SystemClock().now().wall

    def active(
        self,
        session_id: str = SESSION,
        *,
        silent_seconds: float = 900.0,
        project: str = "popoto",
        **fields: Any,
    ) -> None:
        """A session with its running job, as the application saves them."""
        chat, message = session_id.split("_")[-2:]
        self.server.session(
            session_id=session_id,
            project_key=project,
            status="active",
            chat_id=chat,
            started_at=self.now - silent_seconds - 60,
            last_activity=self.now - silent_seconds,
            **fields,
        )
        self.run_job(session_id, project=project, chat_id=chat, message_id=int(message))

    def run_job(
        self, session_id: str, *, project: str = "popoto", status: str = "running", **fields: Any
    ) -> None:
        given = {
            "working_dir": str(self.folder),
            "message_text": "ship it",
            "created_at": self.now - 960,
            **fields,
        }
        self.server.job(project_key=project, status=status, session_id=session_id, **given)

    def log(self, session_id: str, *entries: dict[str, Any]) -> None:
        """Append to a session's tool log; times are seconds before now."""
        path = self.logs / session_id / "tool_use.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            for entry in entries:
                times = {name: self.now - entry[name] for name in ("start_time", "end_time") if name in entry}
                file.write(json.dumps({**entry, **times}) + "\n")

    def call(self, command: str, before_seconds: float, *, ended: bool = True, output: str = "ok") -> None:
        began = {"event": "pre_tool_use", "tool_name": "Bash", "tool_input": {"command": command}}
        self.log(SESSION, {**began, "start_time": before_seconds})
        if ended:
            over = {"event": "post_tool_use", "tool_name": "Bash", "tool_output_preview": output}
            self.log(SESSION, {**over, "end_time": before_seconds - 1})

    def watch(
        self, *, rules: HealingRules | None = None, deadline_seconds: float = 5.0, **settings: Any
    ) -> RedisWatch:
        callbacks: dict[str, Any] = {
            "send_message": lambda chat_id, text: self.sent.append((chat_id, text)),
            "alert": self.alerts.append,
            "write": self.critical.append,
        }
        names = Callbacks.__struct_fields__
        callbacks |= {name: settings.pop(name) for name in names if name in settings}
        allowed = rules if rules is not None else HealingRules(revive_runaways=True)
        clock = SystemClock()
        return RedisWatch(
            jobs=connect(settings.pop("url", self.server.url), deadline_seconds),
            logs=self.logs,
            clock=clock,
            callbacks=Callbacks(**callbacks),
            controls=HealingControls(
                rules=lambda: allowed,
                limiter=RevivalLimiter(clock, 0.0, 1),
                lessons_of=settings.pop("taught", lambda _project: ()),
                tracker=self.forge,
            ),
            # No worker here is between two jobs.
            settings=WatchSettings(**{"confirm_seconds": 0.1, **settings}),
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.critical.recent(0.0)

    def outline(self) -> list[tuple[str, str, str]]:
        """What happened: event, reason, action."""
        return [(each["event"], each["reason"], each["action_taken"]) for each in self.events]

    def statuses(self, model: str) -> list[str]:
        """As popoto finds them by its own index of statuses."""
        possible = ("active", "dormant", "pending", "running", "completed", "failed")
        return [status for status in possible for _ in self.server.query(model, status=status)]
