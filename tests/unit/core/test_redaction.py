"""Claims about what is redacted: every kind in every spelling, at every cut; and what must be left alone."""

import json
import time

import pytest

from support.secret_kinds import KINDS, Kind
from wakeful.core.named_secrets import HINTS
from wakeful.core.redaction import FORMATS, REDACTED_CHARS_MAX, redact


def _spellings(text: str) -> dict[str, str]:
    """One text as logs hold it: plain, in JSON, in JSON within JSON, in a sentence, in a line of a script."""
    command = json.dumps({"command": text})
    script = json.dumps({"command": f"set -e\n{text}\necho done"})
    return {
        "plain": text,
        "JSON": command,
        "JSON as it is": json.dumps({"command": text}, ensure_ascii=False),
        "JSON in JSON": json.dumps({"body": command}),
        "JSON in JSON in JSON": json.dumps(json.dumps({"body": command})),
        "line of a script in JSON": script,
        "line of a script in JSON in JSON": json.dumps({"body": script}),
        "behind a tab in JSON": json.dumps({"command": f"if a\n\t{text}\n"}),
        "behind a carriage return in JSON": json.dumps(f"a\r\n{text}\r\n"),
        "sentence": f"I ran it: {text} and it failed",
        "behind a line": f"line one\n{text}\nline three",
        "coloured": f"\x1b[1m{text}\x1b[0m",
        "UTF-16": "".join(f"{char}\0" for char in text),
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_goes_in_every_spelling(kind: Kind) -> None:
    """No ten characters of the secret are left, escaped or not."""
    for name, spelled in _spellings(kind.text).items():
        shown = redact(spelled)
        assert not kind.is_in(shown), f"{name}: {shown}"
        assert not kind.is_in(shown.replace("\\", "")), f"{name}: {shown}"
        assert redact(shown) == shown, f"{name}: redacted once more it is another text"


def test_there_are_enough_kinds() -> None:
    """And each has a secret of its own, so that a leak names its kind."""
    assert len(KINDS) >= 120
    assert len({kind.secret for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_text_that_is_cut_shows_no_beginning(kind: Kind) -> None:
    """Whatever place of a long text falls into the secret: at most ten characters of it are seen."""
    for back in (5, 12, 20, len(kind.text) // 2, len(kind.text)):
        before = "x " * ((REDACTED_CHARS_MAX - back) // 2)
        assert not kind.is_in(redact(before + kind.text + " y" * 2000))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PGPASSWORD=x psql", "PGPASSWORD=[secret] psql"),
        ('password: "a b\'c"', 'password: "[secret]"'),
        ("password='a b\"c' next", "password='[secret]' next"),
        ('{"password":"a\\"b"}', '{"password":"[secret]"}'),
        ("pw: {'password': 'é ü'}", "pw: {'password': '[secret]'}"),
        ("MYSQL_PWD='' mysql", "MYSQL_PWD='' mysql"),
        ("password = 12", "password = [secret]"),
        ("--password x --port 5", "--password [secret] --port 5"),
        ("sshpass -p x ssh h", "sshpass -p [password] ssh h"),
        ("DB_PASSWORD='it'\\''s'", "DB_PASSWORD='[secret]"),
        ("Server=h;Pwd=a b;Port=1", "Server=h;Pwd=[secret];Port=1"),
        ("https://u:p@ss/w:d@h/x", "https://u:[password]@h/x"),
    ],
)
def test_short_and_awkward_passwords(text: str, shown: str) -> None:
    """One character, blanks, quotes, escapes: the value goes to its end, and nothing behind it does."""
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "commit 3ebfce1a0b2c4d5e6f708192a3b4c5d6e7f80910",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "claude-0442a060-edc3-4307-bddb-11a2951fd1a1",
        "toolu_01A09q90qw90lq917835lq9XyZ",
        "/home/u/Projects/AcmeWebsite2024/src/components/UserProfileV2.tsx",
        "src/wakeful/adapters/claude_code/test_Base64EncodedString2Utf8Converter.py",
        "max_tokens=4096, token_count: 12, tokens: 1500",
        "password: str | None = None",
        "token = get_token()",
        "api_key=os.environ['OPENAI_API_KEY']",
        "export TOKEN=$GITHUB_TOKEN",
        "Authorization: Bearer $TOKEN",
        "curl http://localhost:8080/a@b",
        "--- PASS: TestWrites (0.01s)",
        "the token is stored next to the password file",
        "5 passed, secrets: none",
        "keyboard: pressed key: Enter",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    """Digests, ids, paths, variables, calls and prose are no secrets."""
    assert redact(text) == text


def test_no_text_takes_long() -> None:
    """Every kind, half of it, every hint and every name, repeated over 20,000 characters: linear, whatever it is."""
    pieces = {kind.text for kind in KINDS} | {kind.text[: len(kind.text) // 2] for kind in KINDS}
    pieces |= {hint for format_ in FORMATS for hint in format_.hints}
    pieces |= {hint + sign for hint in HINTS for sign in ("", "=", ":", '="', ": '", '\\"', "\\", '",')}
    for piece in pieces:
        text = (piece * (REDACTED_CHARS_MAX // len(piece) + 1))[:REDACTED_CHARS_MAX]
        began = time.process_time()
        redact(text)
        assert time.process_time() - began < 1, piece
