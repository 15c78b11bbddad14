"""`python -m bench.moving_picture --write FILE`: runs `wakeful demo` in a terminal and draws what it shows as a moving SVG.

The agents are scripted; the daemon, its verdicts and the terminal (tmux) are real. Nothing is drawn by hand.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from rich.color import ColorType
from rich.style import Style
from rich.text import Text

COLUMNS: Final = 100
ROWS: Final = 24
DEMO_SECONDS: Final = 30
# The terminal is read so often; frames with the same text become one.
SAMPLE_SECONDS: Final = 1.0
# The last screen is read longest.
LAST_SECONDS: Final = 6.0
RUN_SECONDS_MAX: Final = 180.0

CELL_WIDTH: Final = 8.4
CELL_HEIGHT: Final = 18
BACKGROUND: Final = "#15181c"
FOREGROUND: Final = "#d7dade"
# The eight colours of a terminal, then the bright ones.
PALETTE: Final = (
    *("#3b4048", "#f2777a", "#6fcf97", "#f2c14e", "#6cb6ff", "#d7a6ff", "#5fd3d3", "#d7dade"),
    *("#8a919a", "#ff9a9c", "#93e6b3", "#ffd877", "#9accff", "#e6c6ff", "#8ae9e9", "#ffffff"),
)

_OPENING: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img" font-size="14"
 font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">
<title>wakeful demo: six agents, and what Wakeful says about each of them</title>
<style>
@media (prefers-reduced-motion: reduce) {{
  .frame {{ visibility: hidden !important }}
  .last {{ visibility: visible !important }}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="{background}"/>"""


class Frame(NamedTuple):
    """A screen and how long it was shown."""

    lines: tuple[str, ...]
    seconds: float


def main() -> int:
    """Record the demo and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m bench.moving_picture", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", required=True)
    asked = parser.parse_args()
    sys.stdout.write(f"recording {DEMO_SECONDS} s of `wakeful demo`\n")
    with tempfile.TemporaryDirectory(prefix="wakeful-") as folder:
        frames = merge_frames(record(Path(folder)))
    asked.write.write_text(moving_svg(frames))
    sys.stdout.write(f"{asked.write}: {len(frames)} frames, {asked.write.stat().st_size // 1024} KiB\n")
    return 0


def record(folder: Path) -> Iterator[Frame]:
    """The screens of a terminal in which the demo runs, until it has ended."""
    tmux = ("tmux", "-S", str(folder / "tmux.sock"), "-f", os.devnull)
    command = shlex.join((sys.executable, "-m", "wakeful", "demo", "--seconds", str(DEMO_SECONDS)))
    environ = {**os.environ, "HOME": str(folder), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    # The prompt and the command, as a person would see them.
    shown = f"printf '$ wakeful demo\\n'; {command}; exec sleep {int(RUN_SECONDS_MAX)}"
    subprocess.run((*tmux, "new-session", "-d", *size, "sh", "-c", shown), env=environ, check=True)
    try:
        until = time.monotonic() + RUN_SECONDS_MAX
        while time.monotonic() < until:
            yield Frame(_screen(tmux), SAMPLE_SECONDS)
            if _has_ended(tmux):
                yield Frame(_screen(tmux), LAST_SECONDS)
                return
            time.sleep(SAMPLE_SECONDS)
        raise TimeoutError(f"the demo did not end within {RUN_SECONDS_MAX:g} s")
    finally:
        subprocess.run((*tmux, "kill-server"), check=False)


def _screen(tmux: Sequence[str]) -> tuple[str, ...]:
    captured = subprocess.run((*tmux, "capture-pane", "-p", "-e"), check=True, capture_output=True, text=True)
    lines = [line.rstrip() for line in captured.stdout.splitlines()[:ROWS]]
    return tuple(lines + [""] * (ROWS - len(lines)))


def _has_ended(tmux: Sequence[str]) -> bool:
    """The demo has ended once the pane's program is the `sleep` after it."""
    shown = subprocess.run(
        (*tmux, "display-message", "-p", "#{pane_current_command}"),
        check=True,
        capture_output=True,
        text=True,
    )
    return shown.stdout.strip() == "sleep"


def merge_frames(frames: Iterator[Frame]) -> list[Frame]:
    """Frames with the same lines that follow each other become one."""
    merged: list[Frame] = []
    for frame in frames:
        if merged and merged[-1].lines == frame.lines:
            merged[-1] = Frame(frame.lines, merged[-1].seconds + frame.seconds)
        else:
            merged.append(frame)
    return merged


def moving_svg(frames: Sequence[Frame]) -> str:
    """An SVG that shows the frames one after the other, without end. A line that stays is drawn once.

    A reader who wants no motion sees the last frame.
    """
    total = sum(frame.seconds for frame in frames)
    width, height = COLUMNS * CELL_WIDTH + 24, ROWS * CELL_HEIGHT + 24
    opening = _OPENING.format(width=width, height=height, background=BACKGROUND)
    lines = [_line(line, row, shown, total) for row in range(ROWS) for line, shown in _runs(frames, row)]
    return "\n".join((opening, *lines, "</svg>", ""))


def _runs(frames: Sequence[Frame], row: int) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The different texts of a row, each with the times at which it is shown."""
    shown: dict[str, list[tuple[float, float]]] = {}
    at = 0.0
    for frame in frames:
        times = shown.setdefault(frame.lines[row], [])
        if times and times[-1][1] == at:
            times[-1] = (times[-1][0], at + frame.seconds)
        else:
            times.append((at, at + frame.seconds))
        at += frame.seconds
    yield from ((line, times) for line, times in shown.items() if line)


def _line(line: str, row: int, shown: Sequence[tuple[float, float]], total: float) -> str:
    is_last = shown[-1][1] == total
    spans = "".join(_spans(Text.from_ansi(line)))
    text = f'<text y="{12 + (row + 1) * CELL_HEIGHT - 5}" xml:space="preserve">{spans}</text>'
    if shown == [(0.0, total)]:
        return text
    times, values = ["0"], ["visible" if shown[0][0] == 0 else "hidden"]
    for begin, end in shown:
        times += [f"{begin / total:.5f}"] * (begin > 0) + [f"{end / total:.5f}"] * (end < total)
        values += ["visible"] * (begin > 0) + ["hidden"] * (end < total)
    animation = (
        f'<animate attributeName="visibility" calcMode="discrete" dur="{total:g}s" repeatCount="indefinite" '
        f'keyTimes="{";".join(times)}" values="{";".join(values)}"/>'
    )
    names = "frame last" if is_last else "frame"
    return f'<g class="{names}" visibility="{"visible" if is_last else "hidden"}">{animation}{text}</g>'


def _spans(text: Text) -> Iterator[str]:
    """Pieces of one style each, at their columns: a character that is wider in another font moves no other."""
    column = 0
    for piece in text.divide(sorted({edge for span in text.spans for edge in (span.start, span.end)})):
        style = sum(_styles(piece), Style())
        if piece.plain.strip():
            yield (
                f'<tspan x="{12 + column * CELL_WIDTH:g}"{_attributes(style)}>{escape(piece.plain, quote=False)}</tspan>'
            )
        column += piece.cell_len


def _styles(piece: Text) -> Iterator[Style]:
    for span in piece.spans:
        if isinstance(span.style, Style):
            yield span.style


def _attributes(style: Style) -> str:
    color = style.color
    fill = FOREGROUND
    if color is not None and color.type is not ColorType.DEFAULT:
        number = color.number
        is_named = number is not None and number < len(PALETTE)
        fill = PALETTE[number] if is_named and number is not None else color.get_truecolor().hex
    weight = ' font-weight="bold"' if style.bold else ""
    opacity = ' opacity="0.65"' if style.dim else ""
    return f' fill="{fill}"{weight}{opacity}'


if __name__ == "__main__":
    sys.exit(main())
