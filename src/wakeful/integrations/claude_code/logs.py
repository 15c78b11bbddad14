"""Where Claude Code keeps its transcripts: `projects/<folder>/<uuid>.jsonl`, subagents in a folder beside each."""

from pathlib import Path

from wakeful.core.ids import is_uuid
from wakeful.integrations.claude_code.registry import subject_of
from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.judging.resuming import project_folder
from wakeful.sources.eye import LogSource, Owner


def claude_logs(config_folders: tuple[Path, ...], host: str) -> LogSource:
    """The transcripts below these configuration folders (`~/.claude` by default)."""

    def owner(parts: tuple[str, ...]) -> Owner | None:
        # Asked about every log there is, so the common case comes first and by number.
        if len(parts) == 2:
            conversation = parts[1].removesuffix(".jsonl")
            return Owner(subject_of(conversation, host, parts[0])) if is_uuid(conversation) else None
        match parts:
            case (folder, conversation, "subagents", _) if is_uuid(conversation):
                return Owner(subject_of(conversation, host, folder), side=True)
        return None

    return LogSource(
        name="claude-transcripts",
        roots=tuple(folder / "projects" for folder in config_folders),
        suffix=".jsonl",
        depth_max=4,
        owner=owner,
        reader=TranscriptReader,
        folder_of=project_folder,
    )
