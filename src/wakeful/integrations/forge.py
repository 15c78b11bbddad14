"""Files problems as issues: one open issue a project, one new one an hour, and never longer than a deadline.

The name of a project is its agents' choice, so all projects together have a budget too: beyond it one summary is filed.

Implements ports.forge.Forge. What goes wrong becomes words for a person; nothing else waits for GitHub.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from math import inf
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.labels import label
from wakeful.core.text import plain
from wakeful.incidents.issue_tracker import Filing, Report
from wakeful.integrations.gh import GhGarbled, GhLoggedOut, GhMissing, GhRefused, ask_gh
from wakeful.integrations.issue_text import PREFIX, body_of, marker_of, title_of
from wakeful.integrations.ledger import Ledger

if TYPE_CHECKING:
    from tempfile import _TemporaryFileWrapper

T = TypeVar("T")
DEADLINE_SECONDS: Final = 20.0
# Two pages of GitHub's, newest first. An issue of ours that lies deeper is doubled once an hour at worst.
LISTED_MAX: Final = 200
# Repositories seldom change hands; one that became public is noticed this late.
VISIBILITY_SECONDS: Final = 3600.0
# So many new issues an hour, whatever their projects are called.
ISSUES_MAX: Final = 10
# Once these are used up, Wakeful does not ask `gh` for so long.
SPENT_SECONDS: Final = 300.0
# So many at a time, whatever their projects are called.
AT_ONCE_MAX: Final = 4
# The budget's places in the ledger, and the project under which its summary is filed.
_ALL: Final = "all projects"
_SPENT: Final = "too many projects had problems within the last hour; one summary was filed for the rest"
_NOT_PUBLIC: Final = frozenset({"PRIVATE", "INTERNAL"})
_REPOSITORY: Final = re.compile(r"[\w.][\w.-]*/[\w.][\w.-]*\Z")
_URL: Final = re.compile(r"https://[\w.-]+(?::\d+)?/[\w.-]+/[\w.-]+/issues/\d+\Z")


class PublicRepository(OperatorError):
    """{repo} is public, and what a session did is not for everybody. Set github.public, or choose another one."""

    code = "public-repository"


class TextNotKept(WorldError):
    """The text of an issue could not be written down: {reason}."""

    code = "text-not-kept"
    retryable = True


# After these nothing was created.
NOT_FILED: Final = (GhMissing, GhLoggedOut, GhRefused, TextNotKept)


class _Visibility(Struct):
    visibility: str


class _Issue(Struct):
    number: int
    title: str
    url: str
    body: str


_decode_visibility: Final = json_decoder(_Visibility)
_decode_issues: Final = json_decoder(list[_Issue])


class GhForge:
    """Issues through `gh`. `repos` are `project=owner/name`; other projects go to `repo`, if there is one."""

    def __init__(
        self,
        ledger: Ledger,
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
        # Until when, by the loop's clock, a repository counts as not public.
        self._private_until: dict[str, float] = {}
        self._one_at_a_time: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._few_at_a_time = asyncio.Semaphore(AT_ONCE_MAX)
        self._summing = asyncio.Lock()
        # Until when, by the loop's clock, the budget of all projects is known to be used up, and the summary's address.
        self._spent: tuple[float, str | None] = (-inf, None)

    def wants(self, project: str) -> bool:
        """Whether anybody configured a place for issues of this project."""
        return _REPOSITORY.match(self._repos.get(label(project), self._repo)) is not None

    async def file(self, report: Report) -> Filing:
        if not self.wants(report.project):
            return Filing(
                None, f"no repository is configured for {plain(report.project, 60)}: set github.repo"
            )
        # Half a character of a folder's name can be kept nowhere.
        report = structs.replace(report, project=report.project.encode("utf-8", "replace").decode())
        try:
            mine = self._one_at_a_time.setdefault(report.project, asyncio.Lock())
            async with asyncio.timeout(self._deadline_seconds), mine:
                return await self._file(report, self._repos.get(label(report.project), self._repo))
        except TimeoutError:
            return Filing(None, f"`gh` did not answer within {self._deadline_seconds:g} s and was ended")
        except (WorldError, OperatorError) as problem:
            return Filing(None, str(problem))

    async def _file(self, report: Report, repo: str) -> Filing:
        place = await self._place()
        if place is None:
            known = await self._ledger.newest(report.project)
            return Filing(known, _SPENT) if known is not None else await self._summarised(report, repo)
        is_used = False
        try:
            async with self._few_at_a_time:
                found = await self._known(report, repo)
                if found is not None:
                    return found
                is_used = True
                url = await self._create(report, repo)
        except NOT_FILED:
            is_used = False
            raise
        finally:
            if not is_used:
                await self._ledger.give_back(place)
        await self._ledger.filed(report.project, url)
        return Filing(url, "filed")

    async def _known(self, report: Report, repo: str) -> Filing | None:
        """The project's issue that is open or was filed within the last hour; None: a new one may be created now."""
        await self._require_allowed(repo)
        url = await self._open_issue(repo, report.project)
        if url is not None:
            return Filing(url, "an issue about this project is open")
        if await self._ledger.claim(report.project):
            return None
        last = await self._ledger.newest(report.project)
        return Filing(last, "an issue about this project was filed within the last hour")

    async def _place(self) -> str | None:
        """A place in the budget of all projects, taken for an hour; None if all of them are taken."""
        for number in range(ISSUES_MAX):
            if await self._ledger.claim(f"{_ALL}/{number}"):
                return f"{_ALL}/{number}"
        return None

    async def _summarised(self, report: Report, repo: str) -> Filing:
        """The one issue for all that the budget has no place for: one an hour, while none is open."""
        async with self._summing:
            if (filed := self._summary_for_now()) is not None:
                return Filing(filed, _SPENT)
            await self._require_allowed(repo)
            url = await self._open_issue(repo, _ALL) or await self._summary(report, repo)
            self._spent = asyncio.get_running_loop().time() + SPENT_SECONDS, url
            return Filing(url, _SPENT)

    def _summary_for_now(self) -> str | None:
        """Where the summary is, while the budget is known to be used up."""
        until, summary = self._spent
        return summary if asyncio.get_running_loop().time() < until else None

    async def _summary(self, report: Report, repo: str) -> str | None:
        if not await self._ledger.claim(_ALL):
            return await self._ledger.newest(_ALL)
        text = f"More than {ISSUES_MAX} projects had problems within an hour. No further issue is filed for now: `wakeful incidents` lists every problem."
        about = Report(_ALL, report.session_id, "issue limit reached", text, 0.0)
        url = await self._create(about, repo)
        await self._ledger.filed(_ALL, url)
        return url

    async def _require_allowed(self, repo: str) -> None:
        """Raises PublicRepository; who can see a repository must be known before anything is written there."""
        now = asyncio.get_running_loop().time()
        if self._public or self._private_until.get(repo, 0.0) > now:
            return
        said = await self._ask("repo", "view", repo, "--json", "visibility")
        if _understood("repo view", said, _decode_visibility).visibility not in _NOT_PUBLIC:
            raise PublicRepository(repo=repo)
        self._private_until[repo] = now + VISIBILITY_SECONDS

    async def _open_issue(self, repo: str, project: str) -> str | None:
        """The oldest open issue of ours about this project."""
        fields = ("--json", "number,title,url,body", "--limit", str(LISTED_MAX))
        said = await self._ask("issue", "list", "--repo", repo, "--state", "open", *fields)
        issues = _understood("issue list", said, _decode_issues)
        marker = marker_of(project)
        ours = [each for each in issues if each.title.startswith(PREFIX) and marker in each.body]
        urls = [each.url for each in sorted(ours, key=lambda each: each.number) if _URL.match(each.url)]
        return urls[0] if urls else None

    async def _create(self, report: Report, repo: str) -> str:
        try:
            said = await self._send(report, repo)
        except NOT_FILED:
            # Surely not there. After anything else it may be, and then the next one who looks finds it.
            await self._ledger.give_back(report.project)
            raise
        words = said.decode(errors="replace").split()
        url = next((word for word in reversed(words) if _URL.match(word)), None)
        if url is None:
            raise GhGarbled(what="issue create", reason=_shown(said))
        return url

    async def _send(self, report: Report, repo: str) -> bytes:
        with _kept(body_of(report)) as text:
            words = ("--repo", repo, "--title", title_of(report), "--body-file", text.name)
            return await self._ask("issue", "create", *words)

    async def _ask(self, *words: str) -> bytes:
        return await ask_gh(words, self._deadline_seconds)


def _understood(what: str, said: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(said)
    except msgspec.DecodeError as problem:
        raise GhGarbled(what=what, reason=_shown(said)) from problem


def _kept(text: bytes) -> "_TemporaryFileWrapper[bytes]":
    """The text in a file for its owner alone, which is gone when closed. Raises TextNotKept."""
    try:
        with ExitStack() as undone:
            file = undone.enter_context(NamedTemporaryFile(prefix="wakeful-issue-", suffix=".md"))
            file.write(text)
            file.flush()
            undone.pop_all()
            return file
    except OSError as problem:
        raise TextNotKept(reason=problem.strerror) from problem


def _shown(said: bytes) -> str:
    return repr(plain(said[:120].decode(errors="replace"), 60))
