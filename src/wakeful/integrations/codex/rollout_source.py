"""Locates Codex rollouts, and finds the process that writes one by the lock it holds."""

from pathlib import Path

from wakeful.core.ids import ConversationId, SessionId, is_uuid, parse_session_id
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging.evidence import Subject
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.linux.files import entries
from wakeful.sources.base import Changes, Folders, Processes, Witness
from wakeful.sources.folder_watch import watch_or_await
from wakeful.sources.log_source import LogSource, Owner


def codex_logs(homes: tuple[Path, ...], host: str) -> LogSource:
    """The rollouts below these Codex homes: `sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`."""

    def owner(parts: tuple[str, ...]) -> Owner | None:
        stem = parts[-1].removesuffix(".jsonl")
        # A UUID has 36 characters; what stands before it is the local start time.
        conversation = stem[-36:]
        if not stem.startswith("rollout-") or not is_uuid(conversation):
            return None
        return Owner(subject_of(conversation, host))

    return LogSource(
        name="codex-rollouts",
        roots=tuple(home / "sessions" for home in homes),
        suffix=".jsonl",
        depth_max=4,
        owner=owner,
        reader=RolloutReader,
    )


def subject_of(conversation: str, host: str) -> Subject:
    """The session of a Codex thread. Raises BadSessionId if that is no id."""
    return Subject(
        id=parse_session_id(f"codex-{conversation}"),
        provider="codex",
        host=host,
        source="codex",
        conversation_id=ConversationId(conversation),
    )


class WriterLockEye:
    """Reads who holds `thread-writer-locks/<thread>.lock`. The file stays when the lock is gone."""

    name = "codex-locks"
    slow = None
    left_out = None

    def __init__(
        self,
        homes: tuple[Path, ...],
        host: str,
        witness: Witness,
        processes: Processes,
        folders: Folders | None = None,
    ) -> None:
        self._lock_folders = tuple(home / "thread-writer-locks" for home in homes)
        self._host = host
        self._witness = witness
        self._processes = processes
        self._folders = folders

    def look(self) -> None:
        for folder in self._lock_folders:
            if self._folders is not None:
                watch_or_await(self._folders, str(folder))
            self._report([path for path in entries(folder) if path.suffix == ".lock"])

    def told(self, changes: Changes) -> None:
        if any(changes.touch(str(folder)) for folder in self._lock_folders):
            self.look()
            return
        changed = [Path(path) for path in changes.changed if path.endswith(".lock")]
        self._report([path for path in changed if path.parent in self._lock_folders])

    def catch_up(self, session_id: SessionId) -> None:
        """Who holds this thread's lock now, if anybody."""
        conversation = session_id.removeprefix("codex-")
        if is_uuid(conversation):
            self._report([folder / f"{conversation}.lock" for folder in self._lock_folders])

    def _report(self, locks: list[Path]) -> None:
        keys = {key: lock for lock in locks if is_uuid(lock.stem) and (key := _key_of(lock)) is not None}
        if not keys:
            return
        for key, pid in proc.flock_holders(keys).items():
            process = proc.identify_if_seen(pid)
            # Every program of this user can lock the file.
            if process is not None and reason_against(process, "codex") is None:
                subject = subject_of(keys[key].stem, self._host)
                cwd = proc.cwd(pid)
                self._witness.held(subject, process, self._processes.watch(process), source="lock", cwd=cwd)


def _key_of(lock: Path) -> proc.FileKey | None:
    try:
        found = lock.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
