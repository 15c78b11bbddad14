"""`python …/claude HOME FILE`, a link to this file: one sleeping process per conversation named in a file, each registered.

They look like idle Claude Code sessions to a reader of the registry. All end when standard input closes.
"""

import os
import sys
from pathlib import Path

from wakeful.testing.scripted_transcript import ScriptedRegistryFile


def main(home: Path, conversations: list[str]) -> None:
    """Fork them all, then wait with them for the end."""
    for conversation in conversations:
        if os.fork() == 0:
            ScriptedRegistryFile(home, Path("/home/u/project"), conversation).write_status("idle")
            _sleep()
    os.write(1, b"ready\n")
    os.read(0, 1)
    for _ in conversations:
        os.wait()


def _sleep() -> None:
    os.read(0, 1)
    # Without the interpreter's own end: a thousand of them at once would take a core for seconds.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]).read_text().split())
