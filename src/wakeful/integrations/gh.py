"""One question to `gh`: what it said, or an error of ours that says what its user can do. Nothing is left running.

Which questions there are is for `forge`; how long they may take together as well.
"""

import os
from collections.abc import Sequence
from typing import Final

from wakeful.core.errors import ClientMissing, WorldError
from wakeful.core.redact import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import gh_environ
from wakeful.linux.inquiry import OUTPUT_BYTES_MAX, Answer, ask
from wakeful.linux.launch import find_program

# From `gh help exit-codes`.
LOGGED_OUT: Final = 4
_REASON_CHARS_MAX: Final = 200
# Whatever makes it talk more, ask back, or look elsewhere than we say. Verbose output holds headers with tokens.
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
    """`gh {what}` answered something that is not understood: {reason}"""

    code = "gh-garbled"


async def ask_gh(words: Sequence[str], deadline_seconds: float) -> bytes:
    """What `gh` printed. Raises one of the errors above, or TimeoutError: then it was ended with all it started."""
    what = " ".join(words[:2])
    answer = await _answer(words, deadline_seconds)
    if answer.exit_code is None:
        if len(answer.output) > OUTPUT_BYTES_MAX or len(answer.errors) > OUTPUT_BYTES_MAX:
            raise GhGarbled(what=what, reason=f"more than {OUTPUT_BYTES_MAX:,} bytes")
        raise TimeoutError
    if answer.exit_code == LOGGED_OUT:
        raise GhLoggedOut
    if answer.exit_code != 0:
        raise GhRefused(what=what, reason=_reason(answer))
    return answer.output


async def _answer(words: Sequence[str], deadline_seconds: float) -> Answer:
    environ = {name: value for name, value in gh_environ(os.environ).items() if name not in _UNSET} | _SET
    try:
        program = find_program("gh", cwd="/", path=environ.get("PATH", os.defpath))
        return await ask((program, *words), deadline_seconds, environ=environ, with_children=True)
    except ClientMissing as problem:
        raise GhMissing(reason="it is not on the PATH") from problem
    except OSError as problem:
        raise GhMissing(reason=problem.strerror) from problem


def _reason(answer: Answer) -> str:
    """What it complained about, in its own words as far as they are fit to be shown."""
    said = answer.errors[: 4 * _REASON_CHARS_MAX].decode(errors="replace")
    return plain(redact(said), _REASON_CHARS_MAX) or f"it ended with {answer.exit_code} and said nothing"
