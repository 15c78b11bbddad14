"""What an agent wrote may be shown: without its secrets, and without what terminals obey."""

import time

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from support.supervisor_fixture import SupervisorFixture
from wakeful.core.redaction import REDACTED_CHARS_MAX, redact
from wakeful.core.text import plain
from wakeful.judging.session_record import safe

SECRET = "Zq8vT3xWm2Lk9Pf4"
# One of each kind, with the part that must never be seen.
SECRETS = {
    f"sk-ant-{SECRET}": SECRET,
    f"sk-{SECRET}": SECRET,
    f"sk_live_{SECRET}": SECRET,
    f"ghp_{SECRET}{SECRET}": SECRET,
    f"github_pat_{SECRET}{SECRET}": SECRET,
    f"glpat-{SECRET}": SECRET,
    f"xoxb-1234567890-{SECRET}": SECRET,
    f"npm_{SECRET}{SECRET}": SECRET,
    f"pypi-{SECRET}{SECRET}": SECRET,
    f"hf_{SECRET}{SECRET}": SECRET,
    "AKIA" + "IOSFODNN7EXAMPLE": "IOSFODNN7EXAMPLE",
    f"AIza{SECRET}{SECRET}": SECRET,
    f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET}": SECRET,
    f"123456789:{SECRET}{SECRET}": SECRET,
    f"postgresql://app:{SECRET}@db/prod": SECRET,
    f"Bearer {SECRET}": SECRET,
    f"password={SECRET}": SECRET,
    f"--token {SECRET}": SECRET,
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----": SECRET,
}
# Whole sequences, cut ones, and single invisible characters.
HIDDEN = (
    "\x1b[31m",
    "\x1b[0;1;38;5;208m",
    "\x1b[K",
    "\x1b[?25l",
    "\x9b1m",
    "\x1b]0;title\x07",
    "\x1b]8;;https://example.org\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b(B",
    "\x1bM",
    "\x1b7",
    "\x1b",
    "\x1b[",
    "\x1b[31",
    "\x1b]0;",
    "\x9d",
    "\0",
    "\b",
    "\x7f",
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\xad",
    "\u202e",
    "\ufe0f",
    "\ue000",
)
# Only what stands alone: after a letter even a terminal takes the rest of a cut sequence for text.
INSIDE = tuple(
    each for each in HIDDEN if each not in {"\x1b[", "\x1b[31", "\x1b]0;"} and each[1:2] not in {"M", "7"}
)


@pytest.mark.parametrize(
    "text",
    [
        "export ANTHROPIC_API_KEY=sk-ant-REDACTED",
        f"OPENAI_API_KEY: sk-proj-{SECRET}",
        f"curl -H 'Authorization: Bearer {SECRET}'",
        f"git push https://me:{SECRET}@github.com/x/y",
        f"postgresql://app:{SECRET}@db/prod",
        f"DB_PASSWORD={SECRET}",
        f'{{"password": "{SECRET}"}}',
        f'{{"input": "{{\\"api_key\\": \\"{SECRET}\\"}}"}}',
        f"aws_secret_access_key = {SECRET}{SECRET}",
        f"--token {SECRET}",
        f"ghp_{SECRET}{SECRET}",
        f"xoxb-1234567890-{SECRET}",
        f"https://api.telegram.org/bot123456789:{SECRET}{SECRET}/getUpdates",
        f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\nand the rest was cut off",
    ],
)
def test_a_secret_does_not_pass(text: str) -> None:
    """Keys, tokens, bot URLs, passwords in URLs, PEM blocks and .env lines, whole or cut."""
    assert SECRET not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "cargo test --workspace",
        "Edit src/tokens.py",
        "git commit -m 'secretary pages'",
        "token: 12",
        "5 passwords",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """A redactor that eats everything is switched off."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a_",
        "token",
        "sk-",
        "x://a:",
        "-----BEGIN PRIVATE KEY-----",
        "secret=",
        '\\"',
        "\x1b[",
        "\x1b]",
        "\x9d",
        "\x1b[1",
        "\u200b",
        "\x1b[1;",
    ],
)
def test_redaction_takes_bounded_time(piece: str) -> None:
    """No text makes it slow: a hostile agent cannot stop the loop."""
    began = time.process_time()
    redact(piece * (REDACTED_CHARS_MAX // len(piece)))
    assert time.process_time() - began < 0.5


@given(
    st.sampled_from(sorted(SECRETS)),
    st.sampled_from(["", "x", "x ", "=", "9", "_", "é"]),
    st.lists(st.sampled_from(HIDDEN), min_size=1, max_size=4),
    st.sampled_from(["", "\x1b[0m", "\x1b[0mDone", "\u200bDone", " y"]),
)
def test_nothing_in_front_hides_a_secret(secret: str, before: str, hidden: list[str], after: str) -> None:
    """A colour, a title, a NUL or half a sequence before a secret, glued to whatever, leaves it a secret."""
    shown = safe(before + "".join(hidden) + secret + after)
    assert SECRETS[secret][1:] not in shown


@given(
    st.sampled_from(sorted(SECRETS)),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(INSIDE)), min_size=1, max_size=4),
)
@example("Bearer Zq8vT3xWm2Lk9Pf4", [(6, "\x1b")])
@example("glpat-Zq8vT3xWm2Lk9Pf4", [(5, "\x1b")])
@example("sk-Zq8vT3xWm2Lk9Pf4", [(1, "\x1b(B"), (2, "\x1b"), (2, "\x1b")])
def test_nothing_inside_hides_a_secret(secret: str, pieces: list[tuple[int, str]]) -> None:
    """Colours, zero-width characters, backspaces and NULs within a secret neither hide nor halve it."""
    text = secret
    # From the end, so that no piece lands within another.
    for at, piece in sorted(pieces, reverse=True):
        text = text[:at] + piece + text[at:]
    shown = safe(f"x {text} y")
    hidden = SECRETS[secret]
    assert not any(hidden[at : at + 6] in shown for at in range(0, len(hidden) - 6, 2)), shown


@pytest.mark.parametrize("secret", SECRETS)
def test_no_record_holds_a_secret_behind_a_colour(secret: str, house: SupervisorFixture) -> None:
    """Whatever of a session could carry it: its folder, what it asks, its call, its failure."""
    coloured = f"x\x1b[31m{secret}\x1b[0mDone"
    house.start("told", project=coloured)
    for act in (house.work, house.ask, house.fail):
        act("told", coloured)
        record = house.registry.find("claude-told").record
        assert SECRETS[secret] not in msgspec.json.encode(record).decode()


def test_text_beside_what_was_hidden_is_left_alone() -> None:
    """Sequences go without a trace, and ordinary words around them stay words."""
    assert redact("\x1b[31mdisk-usage-report\x1b[0m of the task-manager-page") == (
        "disk-usage-report of the task-manager-page"
    )
    assert redact("Größe 尺寸 🚀 ❤️\n\tnext") == "Größe 尺寸 🚀 ❤️\n\tnext"


@given(st.text())
def test_plain_text_holds_nothing_a_terminal_obeys(text: str) -> None:
    """One printable line, whatever came in."""
    shown = plain(text)
    assert all(char.isprintable() for char in shown)
    assert "\x1b" not in shown


def test_plain_text_keeps_what_people_write() -> None:
    """Umlauts, emoji and Chinese are text; overrides that turn it around are not."""
    assert plain("Größe 尺寸 🚀") == "Größe 尺寸 🚀"
    assert plain("abc\u202edef\x1b[31m\nghi") == "abc def ghi"
    assert plain("x" * 30, 10) == "x" * 9 + "…"


def test_a_long_secret_hides_no_end_of_a_text() -> None:
    """Its mark is short, and what stands behind it is not shown: the ellipsis says so."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkq\n" * 1500 + "-----END PRIVATE KEY-----"
    shown = safe(f"echo '{key}'; rm -rf ~")
    assert "MIIE" not in shown
    assert shown.endswith("…")
