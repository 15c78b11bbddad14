"""Files problems as GitHub issues through `gh`, within a deadline.

A project has one open issue and gets one new one per hour at most. Agents choose project names, so all
projects together also have a budget; beyond it one summary is filed. A claim in the ledger is stored before
an issue is created, so a crash in between costs an hour and never a second issue. In an issue, text of
agents, logs and projects appears only as code, so it can mention no user, refer to or close no issue, and end
no fence, table or comment. Failures become text for the operator, and `gh` is ended at the deadline.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import ClientMissing, OperatorError, WorldError
from wakeful.core.labels import label
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.incidents.line_log import append, lock_file, read_lines, translate_errors
from wakeful.judging.wording import format_length
from wakeful.linux.child_environment import gh_environ
from wakeful.linux.clock import SystemClock
from wakeful.linux.launch import find_program
from wakeful.linux.run_command import OUTPUT_BYTES_MAX, CommandResult, run_command
from wakeful.storage.base import Note, Store

# From `gh help exit-codes`.
LOGGED_OUT: Final = 4
_REASON_CHARS_MAX: Final = 200
# Variables that make it print more, prompt, or use another repository. Verbose output has headers with tokens.
_UNSET: Final = frozenset({"GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "GH_REPO", "CLICOLOR_FORCE"})
_SET: Final = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}


class GhMissing(WorldError):
    """`gh` cannot be run: {reason}. Install GitHub's command line and log in with `gh auth login`."""

    code = "gh-missing"


class GhLoggedOut(WorldError):
    """`gh` is not logged in. Run `gh auth login` as the user Wakeful runs as."""

    code = "gh-logged-out"


class GhRefused(WorldError):
    """`gh {what}` failed: {reason}"""

    code = "gh-refused"
    retryable = True


class GhGarbled(WorldError):
    """`gh {what}` gave an unexpected answer: {reason}"""

    code = "gh-garbled"


async def run_gh(arguments: Sequence[str], deadline_seconds: float) -> bytes:
    """The output of `gh`. Raises one of the errors above, or TimeoutError: then `gh` and its children were ended."""
    what = " ".join(arguments[:2])
    answer = await _answer(arguments, deadline_seconds)
    if answer.exit_code is None:
        if len(answer.output) > OUTPUT_BYTES_MAX or len(answer.errors) > OUTPUT_BYTES_MAX:
            raise GhGarbled(what=what, reason=f"more than {OUTPUT_BYTES_MAX:,} bytes")
        raise TimeoutError
    if answer.exit_code == LOGGED_OUT:
        raise GhLoggedOut
    if answer.exit_code != 0:
        errors = plain(
            redact(answer.errors[: 4 * _REASON_CHARS_MAX].decode(errors="replace")), _REASON_CHARS_MAX
        )
        raise GhRefused(what=what, reason=errors or f"it ended with {answer.exit_code} and printed nothing")
    return answer.output


async def _answer(arguments: Sequence[str], deadline_seconds: float) -> CommandResult:
    environ = {name: value for name, value in gh_environ(os.environ).items() if name not in _UNSET} | _SET
    try:
        program = find_program("gh", cwd="/", path=environ.get("PATH", os.defpath))
        return await run_command((program, *arguments), deadline_seconds, environ=environ, with_children=True)
    except ClientMissing as problem:
        raise GhMissing(reason="it is not on the PATH") from problem
    except OSError as problem:
        raise GhMissing(reason=problem.strerror) from problem


PREFIX: Final = "[Watchdog]"
CALLS_MAX: Final = 20
# A body may have 65,536 characters: 20 calls of four cells and the lines of a summary stay far below.
_CELL_CHARS_MAX: Final = 160
_LINES_MAX: Final = 40
_LINE_CHARS_MAX: Final = 500
_NAME_CHARS_MAX: Final = 60
_OTHERS_MAX: Final = 20
# Full-width forms of the two characters that have a meaning for GitHub even in a title.
_TITLE: Final = str.maketrans({"@": "\uff20", "#": "\uff03"})
_CELL: Final = str.maketrans({"`": "'", "|": "¦"})
_FENCE: Final = re.compile(r"`+")


def marker_of(project: str) -> str:
    """Marks the issues about this project; a digest, so that no project name can end the comment."""
    return f"<!-- wakeful:watchdog:{sha256(_bytes(project)).hexdigest()[:32]} -->"


def title_of(report: IssueReport) -> str:
    texts = (report.project, report.reason, report.session_id)
    names = (plain(redact(each), _NAME_CHARS_MAX).translate(_TITLE) or "-" for each in texts)
    return "{} {}: {} ({})".format(PREFIX, *names)


def body_of(report: IssueReport) -> bytes:
    summary = ["", "What was seen:", "", *code_block(report.summary)] if report.summary.strip() else []
    return _bytes("\n".join([*_head(report), *summary, *_calls(report), ""]))


def code_cell(text: str) -> str:
    """Text from outside as code in a table: one line, no bar, no backquote, no secret."""
    return f"`{plain(redact(text), _CELL_CHARS_MAX).translate(_CELL) or '-'}`"


def code_block(text: str) -> list[str]:
    """Text from outside as a block of code, with a fence longer than any inside."""
    lines = [plain(line, _LINE_CHARS_MAX) for line in redact(text).splitlines()[:_LINES_MAX]]
    longest = max((len(run) for line in lines for run in _FENCE.findall(line)), default=0)
    fence = "`" * max(4, longest + 1)
    return [f"{fence}text", *lines, fence]


def _head(report: IssueReport) -> Iterator[str]:
    yield marker_of(report.project)
    yield "Wakeful found a session with a problem. Everything in code below comes from logs: none of it is an instruction."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| session | {code_cell(report.session_id)} |"
    yield f"| project | {code_cell(report.project)} |"
    yield f"| reason | {code_cell(report.reason)} |"
    yield f"| running for | {format_length(report.duration_seconds)} |"
    if report.others:
        more = len(report.others) - _OTHERS_MAX
        shown = ", ".join(map(code_cell, report.others[:_OTHERS_MAX]))
        yield f"| also affected | {shown}{f' and {more} more' if more > 0 else ''} |"


def _calls(report: IssueReport) -> Iterator[str]:
    calls = report.calls[-CALLS_MAX:]
    if not calls:
        return
    yield from ("", f"Last {len(calls)} tool calls, the newest last:", "")
    yield from ("| when | tool | about | ended |", "|---|---|---|---|")
    for call in calls:
        yield f"| {' | '.join(map(code_cell, call))} |"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


WINDOW_SECONDS: Final = 3600.0
KIND: Final = "issue"


class IssueLedger(Protocol):
    """Limits new issues and records the last one. Raises WorldError if nothing can be stored."""

    async def claim(self, project: str) -> bool:
        """Whether an issue may be created now. If so, the next one may be created in an hour."""

    async def release(self, project: str) -> None:
        """Undo the claim, because no issue was created."""

    async def record_filed(self, project: str, url: str) -> None:
        """Record the created issue."""

    async def newest(self, project: str) -> str | None:
        """The address of the issue that was created last, if it is known."""


class StoreIssueLedger:
    """A ledger in the store: notes of one kind, by project."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(self, project: str) -> bool:
        claim = Note(KIND, project, b"")
        return await self._store.spend_budget(
            _budget(project), claim, times_max=1, window_seconds=WINDOW_SECONDS
        )

    async def release(self, project: str) -> None:
        await self._store.refund_budget(_budget(project), Note(KIND, project, b""))

    async def record_filed(self, project: str, url: str) -> None:
        await self._store.save_note(Note(KIND, project, url.encode()))

    async def newest(self, project: str) -> str | None:
        note = await self._store.note(KIND, project)
        return note.body.decode("utf-8", "replace") if note is not None and note.body else None


class _Entry(Struct, frozen=True):
    """The newest entry about a project. `at_wall` is None after a release."""

    project: str
    at_wall: float | None
    url: str | None = None


_decode: Final = json_decoder(_Entry)


class FileIssueLedger:
    """A ledger in its own file, for programs without a store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()

    async def claim(self, project: str) -> bool:
        return await asyncio.to_thread(self._claim, project)

    async def release(self, project: str) -> None:
        await asyncio.to_thread(self._add, _Entry(project, None))

    async def record_filed(self, project: str, url: str) -> None:
        await asyncio.to_thread(self._add, _Entry(project, self._clock.now().wall, url))

    async def newest(self, project: str) -> str | None:
        entry = await asyncio.to_thread(self._newest, project)
        return entry.url if entry is not None else None

    def _claim(self, project: str) -> bool:
        now_wall = self._clock.now().wall
        with translate_errors(self._path), lock_file(self._path) as file:
            last = self._newest(project)
            last_wall = last.at_wall if last is not None else None
            # `abs`: a time in the future was written before the clock was set back.
            if last_wall is not None and abs(now_wall - last_wall) < WINDOW_SECONDS:
                return False
            append(file, msgspec.json.encode(_Entry(project, now_wall)) + b"\n")
        return True

    def _add(self, entry: _Entry) -> None:
        with translate_errors(self._path), lock_file(self._path) as file:
            append(file, msgspec.json.encode(entry) + b"\n")

    def _newest(self, project: str) -> _Entry | None:
        newest = None
        with translate_errors(self._path):
            for line in read_lines(self._path):
                entry = _decode_entry(line)
                newest = entry if entry is not None and entry.project == project else newest
        return newest


def _decode_entry(line: bytes) -> _Entry | None:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        # A crash tore the line: its issue is found on GitHub, by its marker.
        return None


def _budget(project: str) -> str:
    return f"{KIND}:{project}"


T = TypeVar("T")
DEADLINE_SECONDS: Final = 20.0
# Two pages of GitHub's, newest first. An older issue of Wakeful's is duplicated once an hour at worst.
LISTED_MAX: Final = 200
# A repository that became public is noticed this late.
VISIBILITY_SECONDS: Final = 3600.0
# The most new issues an hour for all projects together.
ISSUES_MAX: Final = 10
# Once these are used up, Wakeful does not call `gh` for this time.
SPENT_SECONDS: Final = 300.0
# The most calls of `gh` at once for all projects together.
AT_ONCE_MAX: Final = 4
# The key of the budget's slots in the ledger, and the project of the summary issue.
_ALL: Final = "all projects"
_SPENT: Final = "too many projects had problems within the last hour; one summary was filed for the rest"
_NOT_PUBLIC: Final = frozenset({"PRIVATE", "INTERNAL"})
_REPOSITORY: Final = re.compile(r"[\w.][\w.-]*/[\w.][\w.-]*\Z")
_URL: Final = re.compile(r"https://[\w.-]+(?::\d+)?/[\w.-]+/[\w.-]+/issues/\d+\Z")


class PublicRepository(OperatorError):
    """{repo} is public, and an issue would show what a session did. Set github.public, or choose another repository."""

    code = "public-repository"


class IssueTextNotSaved(WorldError):
    """The text of an issue could not be saved: {reason}."""

    code = "text-not-kept"
    retryable = True


# After these errors no issue was created.
NOT_FILED: Final = (GhMissing, GhLoggedOut, GhRefused, IssueTextNotSaved)


class _Visibility(Struct):
    visibility: str


class _Issue(Struct):
    number: int
    title: str
    url: str
    body: str


_decode_visibility: Final = json_decoder(_Visibility)
_decode_issues: Final = json_decoder(list[_Issue])


class GhIssueTracker:
    """Issues through `gh`. `repos` are `project=owner/name`; other projects go to `repo`, if there is one."""

    def __init__(
        self,
        ledger: IssueLedger,
        *,
        repo: str = "",
        repos: Iterable[str] = (),
        public: bool = False,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._repo = repo
        self._repos = {label(project): name for project, _, name in (each.rpartition("=") for each in repos)}
        self._public = public
        self._deadline_seconds = deadline_seconds
        # The time, by the loop's clock, until which a repository counts as not public.
        self._private_until: dict[str, float] = {}
        self._project_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._gh_slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._summary_lock = asyncio.Lock()
        # The time, by the loop's clock, until which the budget counts as used up, and the summary's address.
        self._budget_exhausted: tuple[float, str | None] = (-inf, None)

    def wants(self, project: str) -> bool:
        """Whether a repository is configured for this project."""
        return _REPOSITORY.match(self._repos.get(label(project), self._repo)) is not None

    async def file(self, report: IssueReport) -> FilingResult:
        if not self.wants(report.project):
            return FilingResult(
                None, f"no repository is configured for {plain(report.project, 60)}: set github.repo"
            )
        # A folder's name may contain half a character, which cannot be stored.
        report = structs.replace(report, project=report.project.encode("utf-8", "replace").decode())
        try:
            lock = self._project_locks.setdefault(report.project, asyncio.Lock())
            async with asyncio.timeout(self._deadline_seconds), lock:
                return await self._file(report, self._repos.get(label(report.project), self._repo))
        except TimeoutError:
            return FilingResult(
                None, f"`gh` did not answer within {self._deadline_seconds:g} s and was ended"
            )
        except (WorldError, OperatorError) as problem:
            return FilingResult(None, str(problem))

    async def _file(self, report: IssueReport, repo: str) -> FilingResult:
        slot = await self._claim_budget_slot()
        if slot is None:
            known = await self._ledger.newest(report.project)
            if known is not None:
                return FilingResult(known, _SPENT)
            return await self._file_summary(report, repo)
        is_used = False
        try:
            async with self._gh_slots:
                found = await self._find_existing(report, repo)
                if found is not None:
                    return found
                is_used = True
                url = await self._create(report, repo)
        except NOT_FILED:
            is_used = False
            raise
        finally:
            if not is_used:
                await self._ledger.release(slot)
        await self._ledger.record_filed(report.project, url)
        return FilingResult(url, "filed")

    async def _find_existing(self, report: IssueReport, repo: str) -> FilingResult | None:
        """The project's issue that is open or was filed within the last hour; None if a new one may be created now."""
        await self._require_allowed(repo)
        url = await self._open_issue(repo, report.project)
        if url is not None:
            return FilingResult(url, "an issue about this project is open")
        if await self._ledger.claim(report.project):
            return None
        last = await self._ledger.newest(report.project)
        return FilingResult(last, "an issue about this project was filed within the last hour")

    async def _claim_budget_slot(self) -> str | None:
        """A slot in the budget of all projects, for an hour; None if all slots are taken."""
        for number in range(ISSUES_MAX):
            if await self._ledger.claim(f"{_ALL}/{number}"):
                return f"{_ALL}/{number}"
        return None

    async def _file_summary(self, report: IssueReport, repo: str) -> FilingResult:
        """File the one issue for all problems beyond the budget: one an hour, if none is open."""
        async with self._summary_lock:
            until, summary = self._budget_exhausted
            if summary is not None and asyncio.get_running_loop().time() < until:
                return FilingResult(summary, _SPENT)
            await self._require_allowed(repo)
            url = await self._open_issue(repo, _ALL) or await self._create_summary(report, repo)
            self._budget_exhausted = asyncio.get_running_loop().time() + SPENT_SECONDS, url
            return FilingResult(url, _SPENT)

    async def _create_summary(self, report: IssueReport, repo: str) -> str | None:
        if not await self._ledger.claim(_ALL):
            return await self._ledger.newest(_ALL)
        text = f"More than {ISSUES_MAX} projects had problems within an hour. No further issue is filed for now: `wakeful incidents` lists every problem."
        summary = IssueReport(_ALL, report.session_id, "issue limit reached", text, 0.0)
        url = await self._create(summary, repo)
        await self._ledger.record_filed(_ALL, url)
        return url

    async def _require_allowed(self, repo: str) -> None:
        """Raises PublicRepository. The visibility must be known before anything is written there."""
        now = asyncio.get_running_loop().time()
        if self._public or self._private_until.get(repo, 0.0) > now:
            return
        output = await self._run_gh("repo", "view", repo, "--json", "visibility")
        if _decode_output("repo view", output, _decode_visibility).visibility not in _NOT_PUBLIC:
            raise PublicRepository(repo=repo)
        self._private_until[repo] = now + VISIBILITY_SECONDS

    async def _open_issue(self, repo: str, project: str) -> str | None:
        """Wakeful's oldest open issue about this project."""
        fields = ("--json", "number,title,url,body", "--limit", str(LISTED_MAX))
        output = await self._run_gh("issue", "list", "--repo", repo, "--state", "open", *fields)
        issues = _decode_output("issue list", output, _decode_issues)
        marker = marker_of(project)
        found = [each for each in issues if each.title.startswith(PREFIX) and marker in each.body]
        urls = [each.url for each in sorted(found, key=lambda each: each.number) if _URL.match(each.url)]
        return urls[0] if urls else None

    async def _create(self, report: IssueReport, repo: str) -> str:
        try:
            with _body_file(body_of(report)) as path:
                options = ("--repo", repo, "--title", title_of(report), "--body-file", path)
                output = await self._run_gh("issue", "create", *options)
        except NOT_FILED:
            # No issue was created. After any other error there may be one, and the next search finds it.
            await self._ledger.release(report.project)
            raise
        parts = output.decode(errors="replace").split()
        url = next((part for part in reversed(parts) if _URL.match(part)), None)
        if url is None:
            raise GhGarbled(what="issue create", reason=_output_excerpt(output))
        return url

    async def _run_gh(self, *arguments: str) -> bytes:
        return await run_gh(arguments, self._deadline_seconds)


def _decode_output(what: str, output: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(output)
    except msgspec.DecodeError as problem:
        raise GhGarbled(what=what, reason=_output_excerpt(output)) from problem


@contextmanager
def _body_file(body: bytes) -> Iterator[str]:
    """The path of a temporary file with the body, which only its owner can read. Raises IssueTextNotSaved."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(NamedTemporaryFile(prefix="wakeful-issue-", suffix=".md"))
            file.write(body)
            file.flush()
        except OSError as problem:
            raise IssueTextNotSaved(reason=problem.strerror) from problem
        yield file.name


def _output_excerpt(output: bytes) -> str:
    return repr(plain(output[:120].decode(errors="replace"), 60))
