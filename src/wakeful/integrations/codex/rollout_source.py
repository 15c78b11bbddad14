"""Locates Codex rollouts, and finds the process that writes one by the lock it holds."""

from pathlib import Path

from wakeful.core.ids import ConversationId, SessionId, is_uuid, parse_session_id
from wakeful.integrations.codex.rollout import RolloutReader, texts_in
from wakeful.judging.evidence import SessionIdentity
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_against
from wakeful.linux.files import entries
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher, ProcessWatch
from wakeful.sources.folder_watch import watch_or_await
from wakeful.sources.log_source import LogFormat, LogOwner


def codex_logs(homes: tuple[Path, ...], host: str) -> LogFormat:
    """The rollouts below these Codex homes: `sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`."""

    def owner(parts: tuple[str, ...]) -> LogOwner | None:
        stem = parts[-1].removesuffix(".jsonl")
        # A UUID has 36 characters; the local start time precedes it.
        conversation = stem[-36:]
        if not stem.startswith("rollout-") or not is_uuid(conversation):
            return None
        return LogOwner(identity_of(conversation, host))

    return LogFormat(
        name="codex-rollouts",
        roots=tuple(home / "sessions" for home in homes),
        suffix=".jsonl",
        depth_max=4,
        owner=owner,
        reader=RolloutReader,
        texts=texts_in,
    )


def identity_of(conversation: str, host: str) -> SessionIdentity:
    """The session of a Codex thread. Raises BadSessionId."""
    return SessionIdentity(
        id=parse_session_id(f"codex-{conversation}"),
        provider="codex",
        host=host,
        source="codex",
        conversation_id=ConversationId(conversation),
    )


class CodexLockSource:
    """Finds the process that holds `thread-writer-locks/<thread>.lock`. The file stays after the lock is released."""

    name = "codex-locks"
    delay_reason = None
    skipped_logs = None

    def __init__(
        self,
        homes: tuple[Path, ...],
        host: str,
        sink: EvidenceSink,
        processes: ProcessWatch,
        folders: FolderWatcher | None = None,
    ) -> None:
        self._lock_folders = tuple(home / "thread-writer-locks" for home in homes)
        self._host = host
        self._sink = sink
        self._processes = processes
        self._folders = folders

    def scan(self) -> None:
        for folder in self._lock_folders:
            if self._folders is not None:
                watch_or_await(self._folders, str(folder))
            self._report([path for path in entries(folder) if path.suffix == ".lock"])

    def on_changes(self, changes: FileChanges) -> None:
        if any(changes.needs_scan(str(folder)) for folder in self._lock_folders):
            self.scan()
            return
        changed = [Path(path) for path in changes.changed if path.endswith(".lock")]
        self._report([path for path in changed if path.parent in self._lock_folders])

    def catch_up(self, session_id: SessionId) -> None:
        conversation = session_id.removeprefix("codex-")
        if is_uuid(conversation):
            self._report([folder / f"{conversation}.lock" for folder in self._lock_folders])

    def _report(self, locks: list[Path]) -> None:
        keys = {key: lock for lock in locks if is_uuid(lock.stem) and (key := _key_of(lock)) is not None}
        if not keys:
            return
        for key, pid in proc.flock_holders(keys).items():
            process = proc.identify_or_none(pid)
            # Any program of this user can lock the file.
            if process is not None and reason_against(process, "codex") is None:
                identity, state = identity_of(keys[key].stem, self._host), self._processes.watch(process)
                self._sink.on_process(identity, process, state, source="lock", cwd=proc.cwd(pid))


def _key_of(lock: Path) -> proc.FileKey | None:
    try:
        status = lock.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
