"""`wakeful config import gateway.json`: every key of the file is converted or named."""

import stat
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from wakeful.cli.app import root
from wakeful.config.load import Document, combine
from wakeful.config.schema import ConfigError
from wakeful.gateway.import_config import NAMES, ImportedConfig, merge_config, read_gateway_json, toml_lines

WHOLE = {
    "conversation": {
        "maxActiveSessions": 12,
        "idleTtlMinutes": 45,
        "replyContextMaxChars": 300,
        "enableReplyContextInjection": False,
    },
    "responseActions": {
        "enabled": False,
        "decisionTimeoutMs": 2500,
        "maxPromptChars": 1000,
        "maxResponseChars": 1500,
    },
}


def read(document: object) -> ImportedConfig:
    return read_gateway_json(msgspec.json.encode(document), "gateway.json")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WAKEFUL_CONFIG", str(tmp_path / "wakeful.toml"))
    return Run(tmp_path)


class Run:
    """The command over a file of its own, with a configuration beside it."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "wakeful.toml"
        self._file = folder / "gateway.json"

    def __call__(self, document: object, *arguments: str) -> Result:
        raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
        self._file.write_bytes(raw)
        return CliRunner().invoke(
            root, ["config", "import", str(self._file), *arguments], standalone_mode=False
        )


def test_every_key_of_a_gateway_json_has_its_place() -> None:
    """All eight, with their values; what is printed is a configuration."""
    imported = read(WHOLE)
    assert set(imported.settings) == set(NAMES.values())
    text = "\n".join(toml_lines(imported))
    config = combine([Document("f", text.encode())], {}).config
    assert (config.conversation.max_active_sessions, config.conversation.idle_ttl_minutes) == (12, 45)
    assert config.conversation.enable_reply_context_injection is False
    assert (config.response_actions.enabled, config.response_actions.decision_timeout_ms) == (False, 2500)


def test_unknown_keys_are_named_and_kept(run: Run) -> None:
    """As comments; a value that looks like a secret is not copied."""
    extra = {"telegram": {"botToken": "123456789:AAH-abcdefghijklmnopqrstuvwxyz012345", "poll": 3}, **WHOLE}
    done = run(extra)
    assert "# not imported: telegram.poll = 3" in done.stdout
    assert "# not imported: telegram.botToken = (not shown)" in done.stdout
    assert "telegram.poll: unknown" in done.stderr
    assert "AAH-" not in done.output


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"{", "gateway.json: not JSON"),
        (b"[" * 100_000, "gateway.json: not JSON"),
        (b"[1]", "gateway.json: must be a JSON object"),
        (
            {"conversation": {"maxActiveSessions": "many"}},
            'conversation.maxActiveSessions: "many" is not a whole',
        ),
        (
            {"conversation": {"idleTtlMinutes": -1}},
            "conversation.idleTtlMinutes: -1 is not a number of minutes",
        ),
        ({"responseActions": {"enabled": "yes"}}, 'responseActions.enabled: "yes" is not true or false'),
        ({"responseActions": None}, "gateway.json: responseActions: null is not an object"),
        ({"conversation": [24]}, "gateway.json: conversation: [24] is not an object"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_line(run: Run, document: object, said: str) -> None:
    """Broken files and impossible values; nothing is written."""
    done = run(document, "--write")
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
    assert not run.config.exists()


@pytest.mark.parametrize("document", [{}, {"conversation": {}}, {"x\n\x1b[31my": 1}])
def test_a_file_that_sets_nothing_says_so(run: Run, document: object) -> None:
    """In one line, and without terminal control sequences."""
    done = run(document)
    assert (done.exception, "has none of the keys" in done.stderr, "\x1b" in done.output) == (
        None,
        True,
        False,
    )
    assert "[conversation]" not in done.stdout


def test_a_byte_order_mark_is_no_mistake() -> None:
    """Some editors leave one."""
    raw = b"\xef\xbb\xbf" + msgspec.json.encode(WHOLE)
    assert read_gateway_json(raw, "gateway.json") == read(WHOLE)


def test_it_is_written_beside_what_is_there_with_a_backup(run: Run) -> None:
    """Comments and other keys stay; the old file lies beside, and both are their owner's alone."""
    before = "# mine\n[daemon]\nport = 5000\n\n[conversation] # pool\nidle_ttl_minutes = 45\n\n[alerts]\ndesktop = false\n"
    run.config.write_text(before)
    done = run({**WHOLE, "x": 1}, "--write")
    assert done.exception is None, done.exception
    after = run.config.read_text()
    config = combine([Document("f", after.encode())], {}).config
    assert (config.daemon.port, config.alerts.desktop, config.conversation.max_active_sessions) == (
        5000,
        False,
        12,
    )
    assert config.response_actions.max_response_chars == 1500
    assert after.startswith("# mine\n")
    assert after.count("idle_ttl_minutes") == 1
    assert "# not imported: x = 1" in after
    (backup,) = run.config.parent.glob("wakeful.toml.before-import-*")
    assert backup.read_text() == before
    assert stat.S_IMODE(run.config.stat().st_mode) == stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_importing_twice_changes_nothing_the_second_time(run: Run) -> None:
    """And makes no second backup."""
    run({**WHOLE, "x": 1}, "--write")
    first = run.config.read_bytes()
    done = run({**WHOLE, "x": 1}, "--write")
    assert "already has all of these settings" in done.stdout
    assert run.config.read_bytes() == first
    assert not list(run.config.parent.glob("*.before-import-*"))


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "[conversation]\nmax_active_sessions = 3\n",
            "sets conversation.max_active_sessions to another value",
        ),
        ("conversation = {}\n", "cannot be extended automatically"),
        ("[daemon]\nprot = 1\n", "Did you mean daemon.port?"),
    ],
)
def test_a_configuration_that_does_not_fit_is_not_touched(run: Run, before: str, said: str) -> None:
    """Another value, another fashion, a mistake of its own: one line, and the file as it was."""
    run.config.write_text(before)
    done = run(WHOLE, "--write")
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
    assert run.config.read_text() == before


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*"abc", "conversation", "maxActiveSessions", "x\ny"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_imported_or_refused_clearly(document: object) -> None:
    """Whatever it holds: valid TOML, or a line that begins with the file's name."""
    try:
        imported = read(document)
    except ConfigError as problem:
        assert str(problem).startswith("gateway.json: ")  # noqa: PT017 - either way is fine
        return
    combine([Document("f", "\n".join(toml_lines(imported)).encode())], {})
    combine([Document("f", merge_config("", imported, "f").encode())], {})
