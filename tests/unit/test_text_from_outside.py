"""What an agent wrote may be shown: without its secrets, and without what terminals obey."""

import time

import pytest
from hypothesis import given, strategies as st

from wakeful.domain.plaintext import plain
from wakeful.domain.redact import REDACTED_CHARS_MAX, redact

SECRET = "Zq8vT3xWm2Lk9Pf4"


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
    "piece", ["a_", "token", "sk-", "x://a:", "-----BEGIN PRIVATE KEY-----", "secret=", '\\"']
)
def test_redaction_takes_bounded_time(piece: str) -> None:
    """No text makes it slow: a hostile agent cannot stop the loop."""
    began = time.perf_counter()
    redact(piece * (REDACTED_CHARS_MAX // len(piece)))
    assert time.perf_counter() - began < 0.5


@given(st.text())
def test_plain_text_holds_nothing_a_terminal_obeys(text: str) -> None:
    """One printable line, whatever came in."""
    shown = plain(text)
    assert all(char.isprintable() for char in shown)
    assert "\x1b" not in shown


def test_plain_text_keeps_what_people_write() -> None:
    """Umlauts, emoji and Chinese are text; overrides that turn it around are not."""
    assert plain("Größe 尺寸 🚀") == "Größe 尺寸 🚀"
    assert plain("abc\u202edef\x1b[31m\nghi") == "abc def [31m ghi"
    assert plain("x" * 30, 10) == "x" * 9 + "…"
