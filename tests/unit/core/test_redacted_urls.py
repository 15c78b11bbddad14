"""Claims about documents for strangers: they have no secret of this machine, and the rest is readable."""

import json

from wakeful.core.redaction import KNOWN, WITHHELD, Redactor

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAAB3Nza\nbC1rZXk\n-----END OPENSSH PRIVATE KEY-----"


def test_a_known_secret_goes_wherever_it_stands() -> None:
    """By its value, though nothing around it says what it is; what is too short for a secret stays."""
    scrub = Redactor({"correct-horse", "correct-horse-battery", "abc"})
    assert scrub.redact_text("x correct-horse-battery y correct-horse abc") == f"x {KNOWN} y {KNOWN} abc"


def test_a_private_key_goes_as_a_whole() -> None:
    """Over lines, on one line, two in a row, and without an end: none of its lines is left."""
    scrub = Redactor(())
    assert scrub.redact_text(f"a\n{KEY}\nb") == "a\n[private key]\nb"
    assert scrub.redact_text(KEY.replace("\n", "\\n") + "\nb") == "[private key]\nb"
    glued = KEY + KEY
    assert "bC1rZXk" not in scrub.redact_text(f"{glued}\nb")
    assert scrub.redact_text(KEY.rpartition("\n")[0]) == "[private key]"


def test_json_is_redacted_in_every_string() -> None:
    """Names, values, lists; a value that only its name gives away; numbers stay what they are."""
    told = {"password": "hunter22", "n": 7, "list": ["Bearer abcdefgh12345", {"sk-ant-abcdefghijkl": "x"}]}
    shown = Redactor(()).redact_json(json.dumps(told).encode())
    assert json.loads(shown) == {"password": "[secret]", "n": 7, "list": ["Bearer [token]", {"[key]": "x"}]}


def test_what_cannot_be_read_is_withheld() -> None:
    """Half a document may hold half a secret."""
    assert json.loads(Redactor(()).redact_json(b'{"token": "abc')) == WITHHELD
