"""A person who types the command lines of a guide, one after the other, in a home of their own."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from support.cli_user import Operator, Record
from support.real_clients import end_tmux, wait_for
from support.tmux_person import TmuxPerson

DOCS: Final = Path(__file__).parents[2] / "docs"
_COMMENT: Final = re.compile(r"\s+#\s.*$|\s{2,}\(.*\)$")
_COMMAND: Final = re.compile(
    r"(?:\.venv/bin/)?(?:wakeful|claude|codex|curl|gh|git|loginctl|make|pip|python|uv) "
)
_PROGRAM: Final = re.compile(r"^(?:\w+=|case )", re.MULTILINE)
_FENCE: Final = re.compile(r"^ *```(\S*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_TMUX_COMMANDS: Final = ("wakeful attach", "wakeful run --name", "wakeful top")
_MOVES: Final = ("cd ", "export ")
_SECONDS_MAX: Final = 120

Prepare = Callable[[], object]


class TypedLine(NamedTuple):
    """A command line of a guide, and its result."""

    guide: str
    line: str
    exit_code: int
    out: str


def blocks(guide: str, *kinds: str) -> Iterator[str]:
    """The fenced blocks of these kinds; "" is a fence without a language."""
    for page in DOCS.glob(f"*/{guide}.md"):
        for kind, text in _FENCE.findall(page.read_text()):
            if kind in kinds:
                yield text


def lines_of(guide: str) -> Iterator[str]:
    """The command lines of a guide without their comments; a shell program is one of them."""
    for text in blocks(guide, "", "bash", "sh", "text"):
        if _PROGRAM.search(text):
            yield text.strip()
            continue
        for line in map(str.strip, text.splitlines()):
            if line.startswith("$ ") or _COMMAND.match(line):
                yield _COMMENT.sub("", line.removeprefix("$ "))


def is_one_of(line: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(line, each) for each in patterns)


class GuideReader:
    """Types lines in a shell; what needs a terminal is typed in a tmux of the person's own."""

    def __init__(self, operator: Operator, folder: Path) -> None:
        self.operator = operator
        self.bin = folder / "bin"
        self.bin.mkdir()
        installed = Path(sys.executable).parent
        path = f"{self.bin}:{installed}:{operator.home.environ()['PATH']}"
        self.environ = {**operator.daemon.environ, "PATH": path, "EDITOR": "true"}
        # The person's own tmux server, and what they put in the place of words of a guide.
        self.terminal = Path(operator.daemon.environ["HOME"]) / "tmux-own.sock"
        self.words: dict[str, str] = {}
        self._moves: list[str] = []
        self._person: TmuxPerson | None = None

    def install(self, name: str, text: str) -> None:
        """A program on the PATH."""
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def go_home(self) -> None:
        """Back to the project's folder."""
        self._moves = []

    def run_program(self, guide: str, text: str) -> TypedLine:
        """A Python program of a guide."""
        return TypedLine(guide, text, *self._run([sys.executable, "-c", self._with_words(text)]))

    def _with_words(self, text: str) -> str:
        for word, meant in self.words.items():
            text = text.replace(word, meant)
        return text

    def read(
        self, guide: str, *, before: Mapping[str, Prepare] | None = None, besides: Iterable[str] = ()
    ) -> Iterator[TypedLine]:
        """Type each line of a guide but those that fit a pattern of `besides`.

        `before` prepares what the text above a line describes; its keys are how such lines begin.
        """
        unused = dict(before or {})
        self._moves = []
        for line in lines_of(guide):
            if is_one_of(line, besides):
                continue
            for begins in [each for each in unused if line.startswith(each)]:
                unused.pop(begins)()
            yield TypedLine(guide, line, *self._type(line))
        assert unused == {}, f"no line of {guide} begins with {list(unused)}"

    def _type(self, line: str) -> tuple[int, str]:
        if line.startswith(_TMUX_COMMANDS):
            return self._type_in_tmux(line)
        command = ["bash", "-c", "\n".join((*self._moves, self._with_words(line)))]
        if "--follow" in line:
            command = ["timeout", "--signal=INT", "3", *command]
        if line.startswith(_MOVES):
            self._moves.append(line)
        return self._run(command)

    def _run(self, command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.operator.home.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _type_in_tmux(self, line: str) -> tuple[int, str]:
        """Inside tmux `run` and `attach` open a window. It is closed, which detaches."""
        person = self._person or self._sit_down()
        person.type_line("clear")
        person.type_line(f'{line}; echo "exit code" $?')
        if line.startswith("wakeful top"):
            person.wait_for("Keys")
            person.press(b"q")
        else:
            try:
                wait_for(lambda: person.windows()[1:] or None, f"window of {line}", 30)
            except AssertionError as error:
                error.add_note(person.screen())
                raise
            person.server.tmux("kill-window", "-t", f"me:{person.windows()[1]}")
        said = person.wait_for("exit code ")
        return (int(re.findall(r"^exit code (\d+)", said, re.MULTILINE)[-1]), said)

    def _sit_down(self) -> TmuxPerson:
        folder = Path(self.environ["TMUX_TMPDIR"]) / f"tmux-{Path(self.environ['HOME']).stat().st_uid}"
        folder.mkdir(mode=0o700, exist_ok=True)
        person = self._person = TmuxPerson(folder / "default", self.environ, columns=120)
        # A login shell has a PATH of its own.
        person.type_line(f"export PATH={self.environ['PATH']}; cd {self.operator.home.project}")
        return person

    def end(self) -> None:
        if self._person is not None:
            self._person.end()
        end_tmux(self.terminal)

    def settle(self, name: str, *states: str) -> Record:
        """Wait until the session of this name, or with this conversation, is in one of these states (idle)."""

        def fits(each: Record) -> bool:
            return (each["name"] == name or name in each["id"]) and each["state"] in (states or ("idle",))

        return self.operator.daemon.wait_for_session(fits, f"{states or 'idle'} {name}")

    def send(self, name: str, prompt: str, *states: str) -> Record:
        """Prompt an idle session, and wait for one of these states."""
        self.settle(name)
        sent = self.operator.type("send", name, prompt)
        assert sent.exit_code == 0, sent.out + sent.err
        return self.settle(name, *states)
