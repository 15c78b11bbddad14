"""Validates an answer: five closed reasons to reject one. Pure.

A rejected answer is shown only on request, so a false alarm costs the user a press and their trust. Quoted
code never counts against an answer. Short answers may repeat, and a new word makes a text new. An error that
was asked about is an answer. A client that calls the answer complete is believed. Only answers to the same
question are compared.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from rapidfuzz.fuzz import ratio

from wakeful.core.text import without_hidden
from wakeful.gateway.rules.errors import Reason
from wakeful.gateway.rules.follow_ups import PROMPTS
from wakeful.gateway.rules.formatting import open_at_end, prose_lines

# From 0 to 1, as `similarity` returns it.
SIMILARITY_MAX: Final = 0.7
# Answers of a conversation that are remembered.
RECENT_MAX: Final = 3
# "Yes, all 45 tests pass." may be the answer three times; a paragraph may not.
LOOP_CHARS_MIN: Final = 80
# A user who repeats a question may get the same answer, such as a status that has not changed. The third one is a loop.
LOOP_EARLIER_MIN: Final = 2
# Comparing takes the product of both lengths; of longer answers both ends are compared.
COMPARED_CHARS_MAX: Final = 4000
# Below this an answer without an end is a heading, a name, a line of a song.
TRUNCATED_CHARS_MIN: Final = 200
CONFUSION_CHARS_MAX: Final = 400


class Finish(StrEnum):
    """The client's report about the end of the answer."""

    COMPLETE = "complete"
    CUT_SHORT = "cut_short"
    UNSAID = "unsaid"


class Exchange(Struct, frozen=True):
    asked: str
    answered: str


class Recent(Struct, frozen=True):
    """The last exchanges of one conversation, newest last."""

    exchanges: tuple[Exchange, ...] = ()

    def after(self, asked: str, answered: str) -> "Recent":
        """The exchanges with one more. Rejected answers count too: they show a loop."""
        return Recent((*self.exchanges, Exchange(_head(asked), answered))[-RECENT_MAX:])


NOTHING_RECENT: Final = Recent()


class Candidate(Struct, frozen=True):
    """An answer to judge. `asked`: the prompt; empty if unknown."""

    text: str
    asked: str = ""
    recent: Recent = NOTHING_RECENT
    finish: Finish = Finish.UNSAID


class ValidationRule(Struct, frozen=True):
    """When a reason applies, also in words, and its exceptions."""

    applies: Callable[[Candidate], bool]
    words: str
    not_held_against: str


def validate(
    text: str, *, asked: str = "", recent: Recent = NOTHING_RECENT, finish: Finish = Finish.UNSAID
) -> Reason | None:
    """The first reason to reject this answer; None: it may be shown."""
    candidate = Candidate(text, asked, recent, finish)
    return next((reason for reason, rule in RULES.items() if rule.applies(candidate)), None)


def similarity(one: str, other: str) -> float:
    """The similarity of two texts, from 0 to 1; spaces and capitals make no difference."""
    one, other = _normalize(one), _normalize(other)
    if max(len(one), len(other)) <= COMPARED_CHARS_MAX:
        return float(ratio(one, other)) / 100
    half = COMPARED_CHARS_MAX // 2
    ends = min(ratio(one[:half], other[:half]), ratio(one[-half:], other[-half:])) / 100
    # Two texts of different length are not alike, however alike they begin and end.
    return float(min(ends, 2 * min(len(one), len(other)) / (len(one) + len(other))))


# Claude Code writes one of these if the model sent no text.
_NOTHING_SAID: Final = frozenset({"", "(no content)", "no response requested."})


def _is_empty(candidate: Candidate) -> bool:
    return _normalize(without_hidden(candidate.text, "")) in _NOTHING_SAID


# The first line of a trace, and its further lines, as the runtimes of agents and their tools print them.
_TRACE_HEAD: Final = re.compile(
    r"\s*(?:Traceback \(most recent call last\):|Exception in thread \"|panic: |goroutine \d+ \["
    r"|thread '[^']*' (?:\(\d+\) )?panicked at |Unhandled(?:PromiseRejection| rejection)|Uncaught \w*(?:Error|Exception)\b"
    r"|node:internal/|fatal error: |(?:PHP )?Fatal error: +Uncaught |Unhandled exception\. |\*\* \(\w+\) )"
)
_TRACE_LINE: Final = re.compile(
    r"\s+at \S.*(?::\d+:\d+\)?|\([\w.$]+\.(?:java|kt|scala):\d+\)|\(<anonymous>\))\s*\Z"
    r"|\s*File \"[^\"]+\", line \d+(?:, in .+)?\s*\Z|\s+\S+\.go:\d+ \+0x[0-9a-f]+\s*\Z|\s*Node\.js v\d"
    # Ruby, C#, PHP, Elixir, Rust.
    r"|\s*(?:\d+: )?(?:from )?\S+:\d+:in ['`]|\s+at [\w.$<>`\[\],+]+\(.*\)(?: in \S+:line \d+)?\s*\Z"
    r"|#\d+ (?:\S+\(\d+\): |\{main\}\s*\Z)|\s+thrown in \S+ on line \d+|\s+\S+\.exs?:\d+: \S+/\d+\s*\Z"
    r"|note: run with `RUST_BACKTRACE="
)
# One line that is an error and nothing else, as runtimes and the two clients print it.
_OF_A_PROGRAM: Final = (
    r"[A-Za-z_.]*(?:Error|Exception)(?: \[[A-Z_]+\])?: \S.*|Error: \S.*|\S+:\d+:in ['`][^'`]*': .+ \(\w+\)"
)
_OF_A_CLIENT: Final = (
    r"API Error(?:\s*[:(·].*)?|Execution error|Request timed out\.?|stream disconnected before completion\b.*"
    r"|unexpected status \d{3}\b.*|exceeded retry limit, last status: \d{3}\b.*"
)
_ERROR_ALONE: Final = re.compile(rf"(?:{_OF_A_PROGRAM}|{_OF_A_CLIENT})", re.ASCII)
_CLIENT_ERROR: Final = re.compile(rf"(?:{_OF_A_CLIENT})", re.ASCII)
# Words of an explanation: a program's error has none.
_EXPLAINS: Final = re.compile(
    r"\b(?:means?|meaning|because|happens?|happened|usually|therefore|in short|it is fine|[Yy]ou|[Yy]our"
    r"|I|I've|we|(?:raised|thrown) (?:when|if|by))\b"
)
# Below a trace a program may print one word and a colon, or a part of a path; a person writes a sentence, asks, or
# names the cause in bold.
_SENTENCE: Final = re.compile(r"(?:[^\W\d_a-z](?![\w.]*:\s)\S*(?:\s+\S+){2,}\s?[.!?]|\*\*\w.*)")
# A user who asks about one of these may get one shown.
_ASKED_FOR: Final = re.compile(
    r"\b(?:errors?|exceptions?|trace\w*|stack|logs?|output|crash\w*|fail\w*|wrong|broken|status)\b",
    re.IGNORECASE,
)


def _leaks_an_error(candidate: Candidate) -> bool:
    """An error alone, or a trace that is most of the text outside of code, and that the user did not ask for."""
    lines = [line for line in prose_lines(candidate.text) if line.strip()]
    if len(lines) == 1 and candidate.text.strip() == lines[0].strip():
        return _is_bare_error(lines[0].strip(), candidate.asked)
    # One line may be a sentence that looks like it.
    marks = _traced(lines)
    traced = sum(marks)
    if traced < 2 or 2 * traced <= len(lines) or _ASKED_FOR.search(candidate.asked):
        return False
    below = lines[len(lines) - marks[::-1].index(True) :]
    return not any(_SENTENCE.fullmatch(each.strip()) for each in below)


def _is_bare_error(line: str, asked: str) -> bool:
    if _ERROR_ALONE.fullmatch(line) is None or (_EXPLAINS.search(line) and not _CLIENT_ERROR.match(line)):
        return False
    if _CLIENT_ERROR.match(line) is not None:
        return True
    name = line.partition(":")[0].casefold()
    return _ASKED_FOR.search(asked) is None and (name == "error" or name not in asked.casefold())


# How the first lines of a trace begin: a line that is not whole yet may become one of them.
_TRACE_OPENINGS: Final = (
    *("Traceback (most recent", "Exception in thread", "panic: ", "goroutine ", "thread '", "Unhandled"),
    *("Uncaught ", "node:internal/", "fatal error: ", 'File "', "at ", "PHP Fatal error: ", "Fatal error: "),
    *("** (", "#0 "),
)
_RUBY_OPENING: Final = re.compile(r"(?:from )?\S+\.rb(?::.*)?")
_ERROR_OPENING: Final = re.compile(r"[A-Za-z_.]*(?:Error|Exception)(?: \[[A-Z_]*\]?)?:?\s*")


def _may_become_trace(line: str, *, is_first: bool) -> bool:
    """Whether the unfinished last line may become the first line of a trace or error."""
    start = line.lstrip()
    if not start:
        return False
    opens = any(each.startswith(start) or start.startswith(each) for each in _TRACE_OPENINGS)
    # "at noon" is everyday English; a trace indents it.
    is_prose = start.startswith(("at ", "File ")) and line[0] not in " \t"
    return (
        (opens and not is_prose)
        or _RUBY_OPENING.fullmatch(start) is not None
        or (is_first and _ERROR_OPENING.fullmatch(start) is not None)
    )


def without_trace(text: str) -> str:
    """The part of a growing answer before the first line of a trace."""
    lines = text.splitlines(keepends=True)
    outside = set(prose_lines(text))
    for number, line in enumerate(lines):
        bare = line.rstrip("\n")
        alone = number == 0 and _ERROR_ALONE.fullmatch(bare.strip()) and not _EXPLAINS.search(bare)
        unfinished = number == len(lines) - 1 and not line.endswith("\n")
        begins = unfinished and _may_become_trace(bare, is_first=number == 0)
        if bare in outside and (_TRACE_HEAD.match(bare) or _TRACE_LINE.match(bare) or alone or begins):
            return "".join(lines[:number]).rstrip()
    return text


def _traced(lines: Sequence[str]) -> list[bool]:
    """Which lines belong to a trace. Python shows the source below each place, and the error at the end."""
    traced, was_traced = list[bool](), False
    for line in lines:
        belongs = _TRACE_HEAD.match(line) or _TRACE_LINE.match(line)
        follows = was_traced and (line.startswith("    ") or _ERROR_ALONE.fullmatch(line.strip()))
        was_traced = bool(belongs or follows)
        traced.append(was_traced)
    return traced


_FILLER: Final = re.compile(
    r"(?:hmm+|oh|ah|hi|hello|hey|sorry|apologies|i apologi[sz]e|i(?:'m| am) (?:so |very )?sorry|my apologies"
    r"|(?:sorry|apologies) (?:about|for) (?:that|the confusion)|i apologi[sz]e for (?:that|the|any) confusion"
    r"|(?:but|and)|(?:i(?:'m| am) )?happy to help|thank you|thanks"
    # A greeting and what follows it: an answer to a user who said hello.
    r"|(?:hi|hello|hey)(?: there| again)?|good (?:morning|afternoon|evening)|welcome(?: back)?"
    r"|(?:how|what) can i (?:help|do)(?: (?:you|for you))?(?: (?:today|with|with that|with this))?)"
)
# After a greeting the question what to do is polite; without one it shows that nothing was understood.
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey)(?: there| again)?|good (?:morning|afternoon|evening)|welcome(?: back)?"
)
_WHAT_TO_DO: Final = re.compile(r"what (?:would you like|do you want) me to do(?: (?:today|next|first|now))?")
_CONFUSED: Final = re.compile(
    r"(?:(?:sorry,? |i(?:'m| am) sorry,? )?(?:but )?)?(?:"
    r"i(?:'m| am) (?:a (?:bit|little) )?(?:confused|lost)(?: (?:by|about) (?:that|this|your (?:message|request|question)))?"
    r"|i(?:'m| am) (?:not (?:quite |entirely )?(?:sure|certain)|unsure)(?: (?:i (?:quite )?understand|(?:of |about )?what (?:you(?:'re| are) (?:asking|saying|looking for|referring to)(?: for| me to do)?|you (?:mean|want|need)|to do|(?:this|that) means)))?"
    r"|i (?:do not|don't|did not|didn't|can't|cannot) (?:quite |fully )?(?:understand|follow|get)(?: (?:that|this|you|(?:your|the) (?:message|request|question|input)|what you(?:'re| are) asking(?: for)?|what you (?:mean|want|need)))?"
    r"|(?:could|can|would|will) you (?:please )?(?:clarify|rephrase|explain|repeat|elaborate)(?: (?:that|this|your (?:message|request|question)|what you (?:mean|need|want)|what you(?:'re| are) (?:asking|looking for)))?(?: please)?"
    r"|(?:please )(?:clarify|rephrase|explain|repeat)(?: (?:that|this|your (?:message|request|question)|what you (?:mean|need|want)))?"
    r"|what (?:do you mean|are you asking(?: for)?|would you like me to do|do you want me to do|should i do)(?: (?:with|by|about) (?:that|this))?"
    r"|(?:it (?:looks|seems) like )?your message (?:seems to be|appears to be|is|was|got) (?:empty|blank|incomplete|cut off)"
    r"|i (?:don't|do not) have (?:any |enough )?context(?: (?:for|about) (?:that|this))?"
    r")"
)
_SENTENCE_END: Final = re.compile(r"[.!?…]+(?:\s+|\Z)|\n+|\s+[\u2013\u2014-]\s+")


def _is_confused(candidate: Candidate) -> bool:
    """Every sentence says that nothing was understood, and none says anything else.

    "Do you mean staging or production?" names something and is a good answer.
    """
    if len(candidate.text) > CONFUSION_CHARS_MAX:
        return False
    text = _normalize(candidate.text.replace("\u2019", "'"), separator="\n")
    sentences = [each.strip(" ,") for each in _SENTENCE_END.split(text) if each.strip(" ,")]
    if any(_GREETING.fullmatch(each) for each in sentences):
        sentences = [each for each in sentences if not _WHAT_TO_DO.fullmatch(each)]
    confused = [each for each in sentences if _CONFUSED.fullmatch(each)]
    return bool(confused) and all(each in confused or _FILLER.fullmatch(each) for each in sentences)


# With one of these no sentence ends, in a language that has them.
_DANGLING: Final = re.compile(r"(?:[,(\[{]|\b(?:and|the|because|which|with|of))\Z", re.IGNORECASE)


def _is_truncated(candidate: Candidate) -> bool:
    """The client reports it; or it reports nothing, and a code block is open or the last line breaks off."""
    if candidate.finish is not Finish.UNSAID:
        return candidate.finish is Finish.CUT_SHORT
    if open_at_end(candidate.text) is not None:
        return True
    prose = list(prose_lines(candidate.text.rstrip()))
    is_code = not prose or not candidate.text.rstrip().endswith(prose[-1].rstrip() or "\0")
    if is_code or len(candidate.text) < TRUNCATED_CHARS_MIN:
        return False
    return _DANGLING.search(prose[-1].rstrip()) is not None


_WORD: Final = re.compile(r"\w+")
# These prompts ask for the last answer once more.
_FOLLOW_UPS: Final = frozenset(PROMPTS.values())


def _is_loop(candidate: Candidate) -> bool:
    """The same question had a similar answer twice before, and this one has no new word.

    An answer to another question does not count, however similar: a status of B after one of A.
    """
    if len(_normalize(candidate.text)) < LOOP_CHARS_MIN or candidate.asked in _FOLLOW_UPS:
        return False
    alike = [
        each
        for each in candidate.recent.exchanges
        if _is_same_question(candidate.asked, each.asked)
        and similarity(candidate.text, each.answered) > SIMILARITY_MAX
        and not _has_new_words(candidate.text, each.answered)
    ]
    return len(alike) >= LOOP_EARLIER_MIN


def _has_new_words(text: str, before: str) -> bool:
    return bool(set(_WORD.findall(text.casefold())) - set(_WORD.findall(before.casefold())))


def _is_same_question(one: str, other: str) -> bool:
    """The same words, or one with a few more: "status of A" and "status of B" each have a word of their own."""
    one, other = _head(one), _head(other)
    own = _has_new_words(one, other) and _has_new_words(other, one)
    return not own and similarity(one, other) > SIMILARITY_MAX


RULES: Final[Mapping[Reason, ValidationRule]] = {
    Reason.EMPTY: ValidationRule(
        _is_empty,
        "no text",
        "an answer that only sends a file",
    ),
    Reason.ERROR_LEAK: ValidationRule(
        _leaks_an_error,
        "one line that is an error and nothing else, or a stack trace that is most of it",
        "code blocks, inline code, an error that is explained, and one that was asked about",
    ),
    Reason.CONFUSION: ValidationRule(
        _is_confused,
        "every sentence says that the agent did not understand",
        "a question that names what is unclear",
    ),
    Reason.TRUNCATED: ValidationRule(
        _is_truncated,
        f"the client reports it; or an open code block, or {TRUNCATED_CHARS_MIN} characters or more that end in mid-sentence",
        "answers that the client calls complete, and short texts",
    ),
    Reason.LOOP: ValidationRule(
        _is_loop,
        f"the same question, the third time, and an answer more than {SIMILARITY_MAX:.0%} like two of the last {RECENT_MAX}, without a new word",
        f"answers to another question or below {LOOP_CHARS_MIN} characters, a new name or number, and answers to a button",
    ),
}


def _normalize(text: str, separator: str = "") -> str:
    """The text in lower case with single spaces; `separator`: a space character that stays."""
    lower = text.casefold()
    if not separator:
        return " ".join(lower.split())
    return separator.join(" ".join(part.split()) for part in lower.split(separator))


def _head(text: str) -> str:
    return text[:COMPARED_CHARS_MAX]
