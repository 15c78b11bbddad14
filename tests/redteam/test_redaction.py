"""Secrets of every kind at every sink: none gets out, and none is written down.

One daemon watches sessions that speak of nothing else. What a sink shows is searched for each secret, ten characters
of it in a row; texts that only a trouble brings about are made from the same records by the same functions.
"""

import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from bench.redaction import corpus, count
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import unix_connect

from support.chromium import chromium, needs_chromium
from support.daemon_process import RunningDaemon
from support.judging_helpers import folded
from support.leaky_sessions import LeakySessions, files_at_rest
from support.read_routes import fleet_targets, session_views
from support.real_clients import wait_for
from support.secret_kinds import KINDS, Kind
from wakeful.alerts.model import finished_text, needs_you_text, problem_text, question_of
from wakeful.checkpoints.model import checkpoint_record, number_draft, to_markdown
from wakeful.checkpoints.session_draft import queue_draft
from wakeful.cli.app import root
from wakeful.cli.format.conversation import ConversationLayout, conversation_lines
from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.control.briefs import BriefedCall, brief
from wakeful.core.ids import SessionId
from wakeful.gateway.rules.shown_text import full_display_text, messages_of, partial_view
from wakeful.incidents.critical_event import critical_event, line_of
from wakeful.incidents.issue_tracker import IssueReport
from wakeful.integrations.github import body_of, title_of
from wakeful.judging.events import CallStarted, Prompted
from wakeful.judging.explanation import Explanation
from wakeful.judging.interrupted_calls import interrupted_calls
from wakeful.judging.session_record import SessionRecord
from wakeful.mcp.tools import DaemonQueries
from wakeful.tui.detail import SessionDetail, detail
from wakeful.views.records import ConversationPart, MessageRecord

if TYPE_CHECKING:
    from redteam.conftest import Redteam


# As a click on a row of the list does: the view of this session takes the place of the last one.
OPEN = """async (href) => {
  history.pushState({}, "", href);
  dispatchEvent(new PopStateEvent("popstate"));
  const view = document.getElementById("session");
  const isDrawn = () => view.querySelector("#session-ladder > *") && view.querySelector("#session-log > *");
  while (!isDrawn()) await new Promise(requestAnimationFrame);
  return document.title + view.outerHTML;
}"""


# The views with the words of agents.
WORDY = ("", "/why", "/calls", "/messages")


class Posts:
    """A webhook that keeps what it gets."""

    def __init__(self) -> None:
        bodies = self.bodies = list[str]()

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                bodies.append(body.decode("utf-8", "replace"))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Nothing: the test looks at what it kept."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self._server.server_port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Scene:
    """The daemon, what its WebSocket said while the sessions spoke, and what its webhook got."""

    def __init__(self, leaky: LeakySessions, posts: Posts) -> None:
        self.leaky = leaky
        self.posts = posts
        self.live = ""

    @property
    def daemon(self) -> RunningDaemon:
        return self.leaky.daemon

    def record(self, session_id: str) -> SessionRecord:
        return msgspec.json.decode(self.leaky.get(f"/api/sessions/{session_id}").content, type=SessionRecord)

    def why(self, session_id: str) -> Explanation:
        return msgspec.json.decode(
            self.leaky.get(f"/api/sessions/{session_id}/why").content, type=Explanation
        )

    def messages(self, session_id: str) -> tuple[MessageRecord, ...]:
        answered = self.leaky.get(f"/api/sessions/{session_id}/messages").content
        return msgspec.json.decode(answered, type=ConversationPart).messages


@contextmanager
def _hearing(scene: Scene) -> Iterator[None]:
    """Whatever the WebSocket says meanwhile."""
    heard: list[str] = []
    with unix_connect(str(scene.daemon.socket), "ws://wakeful/api/ws", proxy=None, max_size=None) as door:

        def listen() -> None:
            try:
                heard.extend(str(message) for message in door)
            except ConnectionClosed as end:
                heard.append(str(end))

        listener = threading.Thread(target=listen)
        listener.start()
        yield
        door.close()
        listener.join()
    scene.live = "\n".join(heard)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    posts = Posts()
    daemon = RunningDaemon(tmp_path_factory.mktemp("r") / "home")
    leaky = LeakySessions(daemon, alerts=posts.url)
    built = Scene(leaky, posts)
    try:
        with _hearing(built):
            leaky.speak()
        yield built
    finally:
        leaky.close()
        daemon.end()
        posts.close()


def _count(
    redteam: "Redteam", sink: str, seen: Callable[[int, Kind], str], step: int = 1, every: int = 1
) -> None:
    """Look for every kind in what the sink shows of it, or of all; with `every`, for one of so many kinds."""
    tried = list(enumerate(KINDS))[::every]
    leaked = 0
    for number, kind in tried:
        is_leaked = kind.is_in(seen(number, kind), step)
        leaked += is_leaked
        redteam.attack(f"redaction: {sink}", kind.name, held=not is_leaked)
    redteam.figure(f"kinds of secrets that leak: {sink}", f"{leaked} of {len(tried)}")


def test_http(scene: Scene, redteam: "Redteam") -> None:
    """Every route that reads: of all sessions, and of each. The short form reads each view of one session."""
    described = scene.leaky.get("/api/openapi.json").json()
    views, targets = session_views(described), fleet_targets(described)
    assert {"", "/why", "/calls", "/messages", "/inspect", "/events"} <= set(views)
    assert {"/api/timeline?hours=24", "/api/find?name=a", "/api/report?since=24h"} <= set(targets)

    def seen(number: int, _kind: Kind) -> str:
        ids = scene.leaky.ids_of(number)
        texts = []
        for place, view in enumerate(views):
            # A session in an agent's own transcript has the most words.
            asked = ids if view in WORDY else (ids[2 if redteam.rounds(0, 1) else place % 3],)
            texts += [scene.leaky.get(f"/api/sessions/{each}{view}").text for each in asked]
        return "\n".join(texts)

    assert "[key]" in seen(0, KINDS[0]), "its words are there"
    _count(redteam, "HTTP", seen)
    everything = "\n".join(scene.leaky.get(target).text for target in targets)
    assert "leaky" in everything
    _count(redteam, "HTTP, all sessions", lambda _number, _kind: everything, step=3)


def test_websocket(scene: Scene, redteam: "Redteam") -> None:
    """The messages while the sessions spoke."""
    assert "[key]" in scene.live, "their words were told"
    _count(redteam, "WebSocket", lambda _number, _kind: scene.live, step=3)


def test_command_line(scene: Scene, redteam: "Redteam") -> None:
    """Lists, reports, incidents and events of all; the explanation of each.

    The first is asked as a person does, with a process for each command; the others within this process.
    """
    run = scene.daemon.run
    asked = (
        ("ls", "--all"),
        ("ls", "--all", "--json"),
        ("status",),
        ("report", "--since", "1h"),
        ("report", "--since", "1h", "--json"),
        ("incidents", "--all"),
        ("incidents", "--all", "--json"),
        ("events", "--json"),
    )
    said = [run(*each) for each in asked]
    everything = "\n".join(each.out + each.err for each in said)
    assert "leaky" in everything

    def asked_of(number: int) -> tuple[tuple[str, ...], ...]:
        ask, _, claude = scene.leaky.ids_of(number)
        of_claude = ("session", "inspect", claude), ("logs", claude)
        return ("session", "why", ask), *of_claude, ("session", "status", ask)

    def seen(number: int, _kind: Kind) -> str:
        told = [CliRunner().invoke(root, each, env=scene.daemon.environ) for each in asked_of(number)]
        return "".join(each.output for each in told)

    first = "".join(each.out + each.err for each in (run(*words) for words in asked_of(0)))
    assert "[key]" in first, "its words are there"
    assert len(seen(0, KINDS[0])) == len(first), "the same as a process of its own shows"
    _count(redteam, "command line, lists", lambda _number, _kind: everything, step=3)
    _count(redteam, "command line, one session", seen)


def test_top(scene: Scene, redteam: "Redteam") -> None:
    """The view of one session in `wakeful top`, with its conversation."""
    layout = ConversationLayout("claude", 200)

    def seen(number: int, _kind: Kind) -> str:
        ids = scene.leaky.ids_of(number)
        lines = [
            line
            for each in ids
            for line in detail(
                scene.record(each), SessionDetail(scene.why(each)), time.time(), cells=200, with_head=True
            )
        ]
        said = [each for one in ids for each in scene.messages(one)]
        lines += conversation_lines(said, layout)
        return "\n".join(text for line in lines for text, _style in line)

    assert "[key]" in seen(0, KINDS[0]), "its words are there"
    _count(redteam, "top", seen)


def test_mcp(scene: Scene, redteam: "Redteam") -> None:
    """What the server's tools answer."""
    questions = DaemonQueries(DaemonClient(StatePaths.from_environ(scene.daemon.environ)), [], [])
    listed = questions.list_sessions(None, None, None, 500, None) + questions.list_incidents(True)

    def seen(number: int, _kind: Kind) -> str:
        told = [questions.session_why(each) for each in scene.leaky.ids_of(number)]
        return b"".join([listed, *told]).decode()

    _count(redteam, "MCP", seen, step=3)


def test_metrics(scene: Scene, redteam: "Redteam") -> None:
    """Figures name sessions by nothing that they said."""
    text = scene.leaky.get("/metrics").text
    _count(redteam, "metrics", lambda _number, _kind: text)


def test_alerts(scene: Scene, redteam: "Redteam") -> None:
    """Every text about every session, and what a webhook got."""
    wait_for(lambda: scene.posts.bodies or None, "an alert", 60)

    def seen(number: int, _kind: Kind) -> str:
        texts = list(scene.posts.bodies)
        for each in scene.leaky.ids_of(number):
            record = scene.record(each)
            texts += [problem_text(record), finished_text(record)]
            question = question_of(record)
            texts += [needs_you_text(record, question)] if question is not None else []
        return "\n".join(texts)

    _count(redteam, "alerts", seen)


def test_github_issues(redteam: "Redteam") -> None:
    """Title and body of a report whose every text is one."""

    def seen(_number: int, kind: Kind) -> str:
        call = ("2026-01-01T00:00:00Z", "Bash", kind.text, kind.text)
        report = IssueReport(kind.text, SessionId("s"), kind.text, kind.text, 1.0, (call,), (SessionId("t"),))
        return title_of(report) + body_of(report).decode()

    _count(redteam, "GitHub issues", seen)


def test_chat(redteam: "Redteam") -> None:
    """An answer as messages, as a file, and while it grows."""

    def seen(_number: int, kind: Kind) -> str:
        answer = f"Here it is:\n{kind.text}\nDone. {'And more of it. ' * 20}"
        return "\n".join((*messages_of(answer), full_display_text(answer), partial_view(answer)))

    _count(redteam, "chat", seen)


def test_decisions_and_events(redteam: "Redteam") -> None:
    """Checkpoints, briefs to an agent that goes on, critical events."""

    def seen(_number: int, kind: Kind) -> str:
        activity = folded([Prompted(1.0), CallStarted(2.0, "c", "Bash", input=_input(kind))])
        calls = interrupted_calls(activity)
        draft = queue_draft(
            session_id="s", project=kind.text, work="w", reason=kind.text, calls=calls, done=[kind.text]
        )
        kept = number_draft(draft, 1, 1.0)
        details = {"said": kind.text, "more": [kind.text, {"text": kind.text}]}
        event = critical_event("session_unhealthy", "s", "p", kind.text, "none", None, details, at_wall=1.0)
        shown = msgspec.json.encode(checkpoint_record(kept)).decode()
        return "\n".join(
            (
                to_markdown(kept),
                shown,
                brief([BriefedCall("Bash", kind.text)], [kind.text]),
                line_of(event).decode(),
            )
        )

    _count(redteam, "checkpoints, briefs, critical events", seen)


def _input(kind: Kind) -> bytes:
    return msgspec.json.encode({"command": kind.text})


@needs_chromium
def test_page(scene: Scene, redteam: "Redteam") -> None:
    """The whole document of the list, and the view of each session; in the short form of one in ten."""
    with chromium() as browser:
        page = browser.new_page()
        link = scene.daemon.run("open", "--json").json["url"]
        page.goto(link)
        page.wait_for_selector("tr[data-id]")
        address = page.url.partition("#")[0].rstrip("/")
        listed = page.content()

        def seen(number: int, _kind: Kind) -> str:
            ids = scene.leaky.ids_of(number)
            return "\n".join(page.evaluate(OPEN, f"{address}/?session={each}") for each in ids)

        first = seen(0, KINDS[0])
        assert all(each in first for each in scene.leaky.ids_of(0)), "each had its turn"
        _count(redteam, "page, list", lambda _number, _kind: listed, step=3)
        _count(redteam, "page, one session", seen, every=redteam.rounds(10, 1))
        page.goto(address)
        others = []
        for view in page.locator("#views [data-view]").all():
            view.click()
            page.wait_for_load_state("networkidle")
            others.append(page.content())
        assert len(others) > 5
        shown = "\n".join(others)
        _count(redteam, "page, other views", lambda _number, _kind: shown, step=3)


def test_bundle(scene: Scene, redteam: "Redteam", tmp_path: Path) -> None:
    """All that is packed for a helper."""
    bundle = tmp_path / "bundle.tar.gz"
    scene.daemon.run("doctor", "--bundle", str(bundle))
    with tarfile.open(bundle) as packed:
        files = [packed.extractfile(each) for each in packed.getmembers() if each.isfile()]
        text = "\n".join(each.read().decode("utf-8", "replace") for each in files if each is not None)
    assert "doctor" in text or "wakeful" in text
    _count(redteam, "support bundle", lambda _number, _kind: text, step=5)


def test_at_rest(scene: Scene, redteam: "Redteam") -> None:
    """Every file of the daemon, its log beside them: while it runs, and after its end; also kept cases."""
    for number in range(len(KINDS)):
        scene.leaky.post(f"/api/sessions/{scene.leaky.ids_of(number)[2]}/wrong", {"expect": "ok", "note": ""})
    # The database itself is read after the end: until then what is new is in its log.
    running = "\n".join(text for name, text in files_at_rest(scene.leaky.state) if name != "wakeful.db")
    scene.daemon.end()
    after = "\n".join(text for _, text in files_at_rest(scene.leaky.state))
    assert "bookmarks" in after
    assert '"events":' in running, "a case was kept"
    everything = running + after + scene.daemon.said()
    _count(redteam, "files at rest", lambda _number, _kind: everything, step=5)


def test_recordings_keep_their_words(redteam: "Redteam") -> None:
    """Fewer than one word in a thousand is redacted where nothing is secret."""
    found = count(corpus())
    assert found.words > 0
    assert found.share < 0.001
    redteam.figure(
        "words of recordings that are redacted", f"{found.redacted:,} of {found.words:,} ({found.share:.3%})"
    )
