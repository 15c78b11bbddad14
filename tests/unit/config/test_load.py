"""The configuration: defaults, files, environment, every kind of mistake, and who may be trusted."""

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from wakeful.cli import settings as trust
from wakeful.cli.commands.config import MEANINGS, USUAL_KEYS, _value_lines, default_lines
from wakeful.cli.settings import load_settings
from wakeful.config.gateway import PermissionMode
from wakeful.config.load import FILE_BYTES_MAX, Document, combine, load
from wakeful.config.paths import StatePaths, config_path
from wakeful.config.schema import (
    KEYS,
    Config,
    ConfigError,
    HomeMissing,
    Mode,
    PathNotAbsolute,
    RunawayResponse,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "own.toml"


def problems_of(content: str | bytes, environ: dict[str, str] | None = None) -> list[str]:
    raw = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(ConfigError) as caught:
        combine([Document("f.toml", raw)], environ or {})
    return str(caught.value).splitlines()


def test_nothing_configured_is_the_defaults() -> None:
    """Without a file and without variables everything has its default."""
    config = load(None, {})
    assert config == Config()
    assert (config.daemon.host, config.daemon.port, config.daemon.mode) == ("127.0.0.1", 4747, Mode.MINE)
    assert config.detect.silence_seconds == 600.0


def test_a_file_sets_what_it_names(file: Path) -> None:
    """Keys of every section are read; whole numbers serve as seconds; ~ is the user's home."""
    file.write_text(
        '[daemon]\nport = 5000\nmode = "observe"\ntcp = false\n'
        '[detect]\nsilence_seconds = 30\n[eyes]\nclaude_dirs = ["/a", "~/b"]\n'
    )
    config = load(str(file), {"HOME": "/home/me"})
    assert (config.daemon.port, config.daemon.mode, config.daemon.tcp) == (5000, Mode.OBSERVE, False)
    assert config.detect.silence_seconds == 30.0
    assert config.eyes.claude_dirs == ("/a", "/home/me/b")


SPECIAL: dict[str, tuple[str, Any]] = {
    "daemon.host": ("::1", "::1"),
    "daemon.mode": ("all", Mode.ALL),
    "store.url": ("sqlite:///a", "sqlite:///a"),
    "heal.runaway": ("revive", RunawayResponse.REVIVE),
    "alerts.telegram_api": ("http://a", "http://a"),
    "alerts.urls": ("ntfy://a,json://b", ("ntfy://a", "json://b")),
    "alerts.ping_url": ("https://a", "https://a"),
    "github.repo": ("me/agents", "me/agents"),
    "github.repos": ("shop=me/shop,bank=me/bank", ("shop=me/shop", "bank=me/bank")),
    "events.critical_path": ("/a", "/a"),
    "redis.url": ("redis://a", "redis://a"),
    "redis.logs": ("/a", "/a"),
    "daemon.pass_environment": ("MY_*,OTHER", ("MY_*", "OTHER")),
    "projects.active": ("shop,bank", ("shop", "bank")),
    "agents.heartbeat.cycle": ("2m", 120.0),
    "hooks.session_health_update_after": ("notify-send health", ("notify-send", "health")),
    "gateway.api": ("http://127.0.0.1:1", "http://127.0.0.1:1"),
    "gateway.allow": ("17,18", (17, 18)),
    "gateway.admins": ("[17]", (17,)),
    "gateway.provider": ("codex", "codex"),
    "gateway.claude.argv": ("claude --verbose", ("claude", "--verbose")),
    "gateway.codex.argv": ("/opt/codex", ("/opt/codex",)),
}
USUAL: dict[type, tuple[str, Any]] = {
    bool: ("0", False),
    int: ("17", 17),
    float: ("17", 17.0),
    str: ("17", "17"),
    tuple: ("/a:/b", ("/a", "/b")),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_key_can_come_from_the_environment(name: str) -> None:
    """WAKEFUL_SECTION__KEY is typed as the file's key is, and wins over the file."""
    variable = "WAKEFUL_" + name.replace(".", "__").upper()
    text, expected = SPECIAL.get(name) or USUAL[type(KEYS[name].default)]
    loaded = combine([Document("f", b"[daemon]\nmode = 'observe'")], {variable: text})
    assert KEYS[name].value_in(loaded.config) == expected
    assert loaded.origins[name] == f"${variable}"


def test_sections_inside_of_another_are_read_beside_agents() -> None:
    """`[agents.heartbeat]` is no agent; durations are written as people write them."""
    text = (
        b"[agents.heartbeat]\nwake_cooldown = '90s'\nsession_health_stale_after = '5m'\nmin_interval = 60\n"
        b"[agents.fox]\nruntime = 'tmux'\ncommand = ['claude']\n"
        b"[session.supervision]\ninactivity_timeout = '1h30m'\n"
    )
    config = combine([Document("f", text)], {}).config
    assert (config.heartbeat.wake_cooldown, config.heartbeat.min_interval) == (90.0, 60.0)
    assert config.detect.stale_seconds == 300.0
    assert config.supervision.inactivity_timeout == 5400.0
    assert [agent.name for agent in config.agents] == ["fox"]


def test_mistakes_inside_of_them_have_their_place() -> None:
    """File, line and key, as everywhere; the nearest key of the same section is offered."""
    found = problems_of(
        "[agents.heartbeat]\nwake_cooldwn = 3\ncycle = 'often'\n[session]\nx = 1\n[session.supervison]\n"
    )
    assert "[session]: unknown. Known: daemon," in found[0]
    assert "session.supervision" in found[0]
    allowed = 'a duration like "5m", or a number of seconds above 0, 315360000 at most'
    assert found[1:] == [
        "f.toml:2: agents.heartbeat.wake_cooldwn: unknown. Did you mean agents.heartbeat.wake_cooldown?",
        f"f.toml:3: agents.heartbeat.cycle: 'often' is not {allowed}",
    ]


def test_the_environment_wins_over_later_files_over_earlier_ones() -> None:
    """Layers: defaults, the user's file, a trusted file of the folder, WAKEFUL_PORT, the key's own variable."""
    documents = [Document("a", b"[daemon]\nport = 1\nmode = 'all'"), Document("b", b"[daemon]\nport = 2")]
    assert combine(documents, {}).config.daemon.port == 2
    assert combine(documents, {}).config.daemon.mode is Mode.ALL
    assert combine(documents, {"WAKEFUL_PORT": "3"}).config.daemon.port == 3
    both = {"WAKEFUL_PORT": "3", "WAKEFUL_DAEMON__PORT": "4"}
    assert combine(documents, both).config.daemon.port == 4


def test_all_problems_are_reported_together_with_file_line_and_key() -> None:
    """One pass names every mistake, where it is, and what is allowed."""
    found = problems_of(
        '[daemon]\nprot = 5\n\nport = -1\n[detect]\nsilence_seconds = "long"\n[eyess]\n[eyes]\ncodex_dirs = 3\n',
        {"WAKEFUL_DAEMON__PORT": "http"},
    )
    assert found == [
        "f.toml:7: [eyess]: unknown. Did you mean eyes?",
        "f.toml:2: daemon.prot: unknown. Did you mean daemon.port?",
        "f.toml:4: daemon.port: -1 is not a whole number from 0 to 65535",
        "f.toml:6: detect.silence_seconds: 'long' is not a number of seconds above 0, 315360000 at most",
        'f.toml:9: eyes.codex_dirs: 3 is not a list of paths that begin with / or ~/, like ["~/logs"]',
        "$WAKEFUL_DAEMON__PORT: daemon.port: 'http' is not a whole number from 0 to 65535",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("detect.silence_seconds = -3", "-3 is not"),
        ("detect.silence_seconds = 0", "0 is not"),
        ("detect.silence_seconds = nan", "nan is not"),
        ("detect.silence_seconds = inf", "inf is not"),
        ("detect.silence_seconds = true", "true is not"),
        ("detect.repeats_max = 1.5", "1.5 is not a whole number"),
        ("detect.repeats_max = 0", "0 is not a whole number"),
        ("daemon.port = 65536", "65536 is not"),
        ("daemon.port = '4747'", "'4747' is not"),
        ("daemon.host = '0.0.0.0'", "is not a loopback address"),
        ("daemon.host = '192.168.1.4'", "is not a loopback address"),
        ("daemon.mode = 'everything'", "is not observe, mine or all"),
        ("daemon.tcp = 'yes'", "is not true or false"),
        ("eyes.event_dirs = ['relative']", "is not a list of paths"),
        ("eyes.event_dirs = '/a'", "is not a list of paths"),
        ("daemon = 3", "must be a table"),
        ("daemon = {port = 'x'}", "'x' is not"),
        (
            "nonsense = 1",
            "Known: daemon, detect, eyes, store, heal, alerts, github, events, redis, projects, recovery, agents.heartbeat, session.supervision, hooks, gateway, gateway.claude, gateway.codex, gateway.host, conversation, response_actions.",
        ),
        ("detect.silence = 1", "Did you mean detect.silence_seconds?"),
        (
            "daemon.zzz = 1",
            "Known: daemon.host, daemon.port, daemon.tcp, daemon.mode, daemon.pass_environment.",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(line: str, said: str) -> None:
    """Wrong types, negative numbers, unknown words: one line that says what would be right."""
    (problem,) = problems_of(f"# first line\n{line}\n")
    assert problem.startswith("f.toml:2: ")
    assert said in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[daemon]\nport = \n", "f.toml:2: not TOML: Invalid value"),
        (b"a = 1\nb = 'open", "f.toml:2: not TOML: "),
        (b"\n\n\xff\xfe", "f.toml:3: not UTF-8"),
        (b"a = " + b"[" * 100_000, "f.toml:1: nested too deeply"),
        (b"a = " + b"9" * 5_000, "f.toml:1: not TOML: "),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(content: bytes, said: str) -> None:
    """Broken syntax, foreign bytes, bombs of brackets and digits: one line each, never a traceback."""
    (problem,) = problems_of(content)
    assert problem.startswith(said)


def test_a_key_with_control_characters_is_shown_plain() -> None:
    """What a file holds cannot reach the terminal as an order."""
    (problem,) = problems_of('daemon."\\u001b[31m\\nwakeful: all is well" = 1')
    assert problem.isprintable()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_configuration_or_a_clear_problem(content: bytes) -> None:
    """No content makes reading fail in any other way than by ConfigError."""
    said = "f.toml"
    try:
        combine([Document("f.toml", content)], {"HOME": "/h"})
    except ConfigError as problem:
        said = str(problem)
    assert said.startswith("f.toml")


def test_only_regular_files_of_sensible_size_are_read(tmp_path: Path) -> None:
    """A missing file, a folder, a FIFO, a device and a giant are refused at once."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "giant").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    for path in (tmp_path / "none", tmp_path, tmp_path / "fifo", Path("/dev/zero"), tmp_path / "giant"):
        with pytest.raises(ConfigError, match=str(path)):
            load(str(path), {})


def test_the_default_file_is_valid_and_changes_nothing() -> None:
    """What `config init` writes means the defaults, as it is and with every key put in force."""
    text = "\n".join(default_lines())
    assert combine([Document("f", text.encode())], {}).config == Config()
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    loaded = combine([Document("f", "\n".join(lines).encode())], {})
    assert loaded.config == Config()
    assert "default" not in loaded.origins.values()
    assert set(MEANINGS) == set(KEYS)
    usual = "\n".join(put_in_force("\n".join(default_lines(USUAL_KEYS))))
    loaded = combine([Document("f", usual.encode())], {})
    assert loaded.config == Config()
    assert {name for name, origin in loaded.origins.items() if origin != "default"} == set(USUAL_KEYS)


def put_in_force(text: str) -> list[str]:
    """The lines of a default file with every key and every example taken out of its comment."""
    lines = (line.removeprefix("#| ") for line in text.splitlines())
    return [line.removeprefix("# ") if re.match(r"# \w+ = \S+$", line) else line for line in lines]


def test_every_value_knows_its_line() -> None:
    """With all of `config init` put in force, examples too, each key's origin is the line that sets it."""
    lines = put_in_force("\n".join(default_lines()))
    loaded = combine([Document("f", "\n".join(lines).encode())], {"HOME": "/h"})
    assert [each.name for each in loaded.config.agents] == ["claude"]
    assert len(loaded.config.gateway_chats) == 1
    for name, origin in loaded.origins.items():
        line = lines[int(origin.removeprefix("f:")) - 1]
        is_table = name.rpartition(".")[0] not in loaded.origins and name not in KEYS
        assert line.startswith("[" if is_table else f"{name.rpartition('.')[2]} = "), (name, line)
    assert KEYS.keys() <= loaded.origins.keys()
    assert {f"{each}.folder" for each in loaded.origins if each.endswith(":7")} <= loaded.origins.keys()


def test_what_an_agent_or_a_chat_leaves_out_is_a_default() -> None:
    """`config show` gives each of their keys a line with its own origin."""
    text = "[agents.fox]\nruntime = 'tmux'\ncommand = ['claude']\n[gateway.chats.default]\nfolder = '/srv'\n"
    shown = {
        line.partition(" = ")[0]: line
        for line in _value_lines(combine([Document("f.toml", text.encode())], {}))
    }
    assert shown["agents.fox.command"].endswith("# f.toml:3")
    assert shown["agents.fox.workdir"].endswith("# default")
    assert shown['gateway.chats."default".folder'].endswith("# f.toml:5")
    assert shown['gateway.chats."default".provider'].endswith("# default")


def test_the_state_folder_is_found_as_documented() -> None:
    """$WAKEFUL_HOME, else the XDG state folder, else below HOME; without any of them a clear refusal."""
    assert StatePaths.from_environ({"WAKEFUL_HOME": "/w/", "HOME": "/h"}).socket == "/w/wakeful.sock"
    assert StatePaths.from_environ({"XDG_STATE_HOME": "/s", "HOME": "/h"}).state_dir == "/s/wakeful"
    assert (
        StatePaths.from_environ({"XDG_STATE_HOME": "relative", "HOME": "/h"}).state_dir
        == "/h/.local/state/wakeful"
    )
    assert StatePaths.from_environ({"WAKEFUL_HOME": "", "HOME": "/h"}).state_dir == "/h/.local/state/wakeful"
    with pytest.raises(HomeMissing, match="HOME is not set"):
        StatePaths.from_environ({})
    with pytest.raises(PathNotAbsolute, match="WAKEFUL_HOME"):
        StatePaths.from_environ({"WAKEFUL_HOME": "here"})


def test_the_configuration_file_is_found_as_documented() -> None:
    """--config, else $WAKEFUL_CONFIG, else the XDG config folder."""
    environ = {"HOME": "/h", "WAKEFUL_CONFIG": "/c.toml"}
    assert config_path(environ, "./x.toml") == "./x.toml"
    assert config_path(environ) == "/c.toml"
    assert config_path({"HOME": "/h"}) == "/h/.config/wakeful/wakeful.toml"
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == "/x/wakeful/wakeful.toml"
    assert config_path({}) is None


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that brought its own wakeful.toml along."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "wakeful.toml").write_text("[daemon]\nmode = 'all'\n")
    monkeypatch.chdir(folder)
    for variable in ("WAKEFUL_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "state"))
    return folder


def trust_it(clone: Path) -> Path:
    document = trust.working_directory_config()
    assert document is not None
    paths = StatePaths(str(clone.parent / "state"))
    trust.trust(document, paths)
    return Path(paths.trust_file)


def test_a_working_directory_sets_nothing_until_it_is_trusted(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cloned wakeful.toml is ignored, loudly; trusted by a person it counts, silently."""
    assert load_settings(None).config.daemon.mode is Mode.MINE
    assert capsys.readouterr().err.count("wakeful config trust") == 1
    trust_it(clone)
    assert load_settings(None).config.daemon.mode is Mode.ALL
    assert capsys.readouterr().err == ""


def test_a_changed_file_is_a_stranger_again(clone: Path) -> None:
    """Trust holds for one content at one path."""
    trust_it(clone)
    (clone / "wakeful.toml").write_text("[daemon]\nmode = 'all'\nport = 1\n")
    assert load_settings(None).config == Config()


def test_a_trusted_content_elsewhere_is_a_stranger(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes in another folder were not what a person trusted."""
    trust_it(clone)
    other = clone.parent / "other"
    other.mkdir()
    (other / "wakeful.toml").write_bytes((clone / "wakeful.toml").read_bytes())
    monkeypatch.chdir(other)
    assert load_settings(None).config == Config()


def test_a_link_is_never_followed_even_to_trusted_content(clone: Path) -> None:
    """Where a link points can change without the file changing."""
    trust_it(clone)
    (clone / "wakeful.toml").rename(clone / "real.toml")
    (clone / "wakeful.toml").symlink_to("real.toml")
    assert load_settings(None).config == Config()


def test_a_link_is_called_a_link(clone: Path) -> None:
    """The message says what is refused and why, not the system's name for it."""
    (clone / "wakeful.toml").rename(clone / "real.toml")
    (clone / "wakeful.toml").symlink_to("real.toml")
    with pytest.raises(ConfigError, match=r"wakeful\.toml: a symbolic link: not followed"):
        trust.working_directory_config()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            'mode = "all"',
            "f.toml:1: mode: unknown outside a section. Did you mean daemon.mode? It belongs under [daemon].",
        ),
        (
            "zzz = 1",
            "f.toml:1: zzz: unknown. Known: daemon, detect, eyes, store, heal, alerts, github, events, redis, projects, recovery, agents.heartbeat, session.supervision, hooks, gateway, gateway.claude, gateway.codex, gateway.host, conversation, response_actions.",
        ),
        (
            "[mod]",
            "f.toml:1: [mod]: unknown. Known: daemon, detect, eyes, store, heal, alerts, github, events, redis, projects, recovery, agents.heartbeat, session.supervision, hooks, gateway, gateway.claude, gateway.codex, gateway.host, conversation, response_actions, agents, gateway.chats.",
        ),
    ],
)
def test_a_key_outside_of_its_section_is_shown_the_way(content: str, said: str) -> None:
    """The commonest slip, a key at the top of the file, is answered with its full name."""
    assert problems_of(content) == [said]


def test_what_is_trusted_is_written_for_the_owner_alone(clone: Path) -> None:
    """The list of trusted files lies in a 0700 folder with mode 0600, and nothing else is left there."""
    trusted = trust_it(clone)
    assert stat.S_IMODE(trusted.stat().st_mode) == 0o600
    assert stat.S_IMODE(trusted.parent.stat().st_mode) == 0o700
    assert list(trusted.parent.iterdir()) == [trusted]


def test_a_folder_cannot_write_itself_into_the_list(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newlines and quotes in a folder's name stay one entry of the list."""
    odd = clone.parent / 'a","b":"c\nd'
    odd.mkdir()
    (odd / "wakeful.toml").write_text("[daemon]\nport = 7\n")
    monkeypatch.chdir(odd)
    trusted = trust_it(clone)
    assert load_settings(None).config.daemon.port == 7
    assert trusted.read_bytes().count(b'":"') == 1


def test_a_named_file_is_the_only_one(clone: Path, file: Path) -> None:
    """--config leaves the working directory's file out, trusted or not."""
    trust_it(clone)
    file.write_text("[daemon]\nport = 9\n")
    config = load_settings(str(file)).config
    assert (config.daemon.port, config.daemon.mode) == (9, Mode.MINE)


def test_a_secret_is_shown_to_nobody(file: Path) -> None:
    """Neither in a listing nor in the message about a wrong value."""
    (said,) = problems_of('[redis]\nurl = "http://user:pass-word@host"\n')
    assert "pass-word" not in said
    file.write_text('[alerts]\ntelegram_token = "123:abc"\nurls = ["ntfy://pass-word@host"]\n')
    shown = "\n".join(_value_lines(combine([Document("f.toml", file.read_bytes())], {})))
    assert "123:abc" not in shown
    assert "pass-word" not in shown
    assert shown.count("(set, not shown)") == 2


def test_a_list_in_the_environment_may_be_json() -> None:
    """As the file has it; broken JSON is refused with both ways to write it, and a secret stays one."""
    environ = {"WAKEFUL_PROJECTS__ACTIVE": ' ["popoto", "a,b"]', "WAKEFUL_EYES__CODEX_DIRS": '["/a:b"]'}
    config = combine([], environ).config
    assert (config.projects.active, config.eyes.codex_dirs) == (("popoto", "a,b"), ("/a:b",))
    assert combine([], {"WAKEFUL_PROJECTS__ACTIVE": "[]"}).config.projects.active == ()
    for broken in ('["popoto"', "[popoto]", "[1]"):
        with pytest.raises(ConfigError, match=r"begins like a JSON list.*write .* or one,two"):
            combine([], {"WAKEFUL_PROJECTS__ACTIVE": broken})
    with pytest.raises(ConfigError) as refused:
        combine([], {"WAKEFUL_ALERTS__URLS": '["ntfy://secret"'})
    assert "secret" not in str(refused.value)


CHATS = b"""
[gateway]
token = "1:a"
allow = [7]
[gateway.codex]
failures_max = 5
[gateway.chats.default]
folder = "~/work"
[gateway.chats."chat:-100123:thread:7"]
folder = "/srv/shop"
permission_mode = "acceptEdits"
provider = "codex"
send_from = "/srv/shop/out"
[conversation]
max_active_sessions = 3
"""


def test_each_chat_has_a_table_of_its_own() -> None:
    """Beside the gateway's own keys and sections; a later file replaces the whole of a chat."""
    config = combine([Document("f", CHATS)], {"HOME": "/h"}).config
    assert (config.gateway.allow, config.gateway_providers["codex"].failures_max) == ((7,), 5)
    assert config.conversation.max_active_sessions == 3
    default, topic = config.gateway_chats
    assert (default.key, default.folder, default.provider) == ("default", "/h/work", None)
    assert (topic.permission_mode, topic.provider) == (PermissionMode.ACCEPT_EDITS, "codex")
    later = Document("g", b"[gateway.chats.default]\nsend_from = '/out'\n")
    changed = combine([Document("f", CHATS), later], {"HOME": "/h"}).config.gateway_chats
    assert (changed[0].folder, changed[0].send_from, changed[1]) == ("", "/out", topic)
    shown = "\n".join(_value_lines(combine([Document("f", CHATS)], {"HOME": "/h"})))
    assert 'gateway.chats."chat:-100123:thread:7".folder = "/srv/shop"' in shown
    assert "1:a" not in shown


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("gateway.chats = 1", "f.toml:1: gateway.chats: must hold tables"),
        ("[gateway.chats.home]", 'f.toml:1: gateway.chats."home": must be default or chat:<id>:thread:'),
        ("[gateway.chats]\ndefault = 1", 'f.toml:2: gateway.chats."default": must be a table'),
        ("[gateway.chats.default]\nfoldr = '/a'", ".foldr: unknown. Did you mean folder?"),
        ("[gateway.chats.default]\nfolder = 'a'", ".folder: 'a' is not empty, or a path"),
        ("[gateway.chats.default]\npermission_mode = 'all'", "'all' is not default, acceptEdits, plan or"),
        ("[gateway]\nallow = ['me']", "['me'] is not a list of numeric user ids"),
        ("[gateway]\nallow = [-100]", "[-100] is not a list of numeric user ids"),
        ("[gateway]\ntoken = 5", "gateway.token: this value is not any text"),
        ("[gateway]\nallw = [1]", "gateway.allw: unknown. Did you mean gateway.allow?"),
        ("[conversation]\nmax_active_sessions = 0", "0 is not a whole number from 1 to 1000"),
    ],
)
def test_mistakes_about_the_gateway_have_their_place(content: str, said: str) -> None:
    """File, line and key, and what would be right; a token is not shown."""
    (problem,) = problems_of(content)
    assert problem.startswith("f.toml:")
    assert said in problem
