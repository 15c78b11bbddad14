"""One question to git about a folder that an agent may write to: nothing is written, and nothing of that folder is run.

A repository's own configuration can name programs: hooks, a file system monitor, filters, a signature checker, ways to
fetch. Every one of them is switched off here, those with names of their own after they were asked for.
"""

import os
from collections.abc import Sequence
from typing import Final

from wakeful.core.errors import ClientMissing
from wakeful.linux.child_environment import helper_environ
from wakeful.linux.inquiry import Answer, ask
from wakeful.linux.launch import find_program

_SILENT: Final = Answer(None, b"", b"")
# Whatever a repository, or the shell that started us, could make git do beside reading.
_SETTINGS: Final = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", ""),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
_ENVIRON: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_FLUSH": "0",
    "LC_ALL": "C",
}
# Repositories have a handful; a thousand would not fit into an environment.
FILTERS_MAX: Final = 200


class Git:
    """git in one folder. Every answer comes within `seconds_max`; without git there is none. Raises FolderGone."""

    def __init__(self, folder: str, seconds_max: float) -> None:
        self._folder = folder
        self._seconds_max = seconds_max
        self._filters: tuple[str, ...] | None = ()

    async def disarm(self) -> bool:
        """Learn which filters are configured, so that none of them runs. False: that could not be learned."""
        said = await self.ask("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
        # 1: there are none.
        if said.exit_code not in {0, 1}:
            return False
        names = {key.removeprefix("filter.").rpartition(".")[0] for key in words(said.output)}
        self._filters = tuple(sorted(names))
        return len(names) <= FILTERS_MAX

    async def ask(self, *arguments: str) -> Answer:
        try:
            program = find_program("git", cwd=self._folder, path=os.environ.get("PATH", os.defpath))
            return await ask(
                (program, "--no-pager", *arguments),
                self._seconds_max,
                environ=self._environ(),
                with_children=True,
                cwd=self._folder,
            )
        except (ClientMissing, OSError):
            return _SILENT

    def _environ(self) -> dict[str, str]:
        """Ours, without anything that points git elsewhere."""
        return helper_environ(os.environ) | _ENVIRON | _counted((*_SETTINGS, *_disarmed(self._filters or ())))


def words(output: bytes) -> list[str]:
    """What stands between the zero bytes."""
    return [os.fsdecode(each) for each in output.split(b"\0") if each]


def _disarmed(filters: Sequence[str]) -> list[tuple[str, str]]:
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return [(f"filter.{name}.{key}", value) for name in filters for key, value in off]


def _counted(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """As git reads them from its environment: there a name may hold any character."""
    counted = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        counted |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return counted
