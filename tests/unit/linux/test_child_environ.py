"""Every program that Wakeful starts gets an environment from an allow-list: one module makes them, and all use it."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from wakeful.config.gateway import GatewayConfig, Secret
from wakeful.config.schema import KEYS, AlertsConfig, Config, secret_values
from wakeful.core.environment_allowlist import secret_parts
from wakeful.linux import child_environment as children

SOURCE = Path(__file__).parents[3] / "src" / "wakeful"
STARTS = {
    *("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    *("create_subprocess_exec", "create_subprocess_shell"),
}
REPLACES = ("exec", "spawn", "posix_spawn", "system", "popen", "fork")
# Modules that start programs in ways of their own.
OTHERS = {"multiprocessing", "pty", "concurrent.futures.process", "pexpect", "sh"}
MAKERS = {
    "helper_environ",
    "gh_environ",
    "hook_environ",
    "agent_environ",
    "declared_environ",
    "given_environ",
}
# Wakeful's own programs, the daemon and the gateway: they read their settings in their environment.
OWN = {"linux/child_process.py", "cli/commands/daemon.py", "cli/demo/environment.py"}
# The whole environment is handed to those who look up names in it, and to the makers above.
READERS = {
    *MAKERS,
    *(
        "own_environ",
        "leaked_names",
        "kept_back",
        "StatePaths.from_environ",
        "config_path",
        "require_home",
        "combine",
        "load",
    ),
    *(
        "engine_address",
        "open_channels",
        "CheckContext",
        "Gateway",
        "SystemdNotifier.from_environ",
        "set",
        "has_desktop",
    ),
    *("fragment_values", "with_values", "without_keys", "steps.hook_plans", "steps.autostart_plan"),
    *("steps.completion_plan", "steps.mcp_plan", "steps.undo_plan"),
    *("work.plan_install", "work.is_linger_enabled", "work.plan_remove", "partial", "settings_path"),
}
ALL = {
    *("PATH", "LC_ALL", "TERM", "SSH_AUTH_SOCK", "https_proxy", "WAKEFUL_HOME", "GH_TOKEN", "GITHUB_TOKEN"),
    *("ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "AWS_PROFILE", "DATABASE_URL", "REDIS_URL"),
    *("STRIPE_KEY", "MY_TOOL", "MY_OTHER", "WAKEFUL_GATEWAY__TOKEN", "PATHS", "XPATH"),
}


@pytest.fixture
def knowing() -> Iterator[Callable[..., None]]:
    """Tells this process its secrets, and makes it forget them."""
    yield children.configure_environments
    children.configure_environments(())


def names(maker: Callable[[dict[str, str]], dict[str, str]]) -> set[str]:
    return set(maker(dict.fromkeys(ALL, "x")))


def test_each_kind_of_program_gets_its_list() -> None:
    """A helper gets a place, a language and a terminal; an agent its client's names; gh alone its token."""
    small = {"PATH", "LC_ALL", "TERM", "SSH_AUTH_SOCK", "https_proxy", "WAKEFUL_HOME"}
    assert names(children.helper_environ) == small
    assert names(children.hook_environ) == small
    assert names(children.gh_environ) == {*small, "GH_TOKEN", "GITHUB_TOKEN"}
    client = {"ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "AWS_PROFILE"}
    assert names(children.agent_environ) == small | client
    assert names(children.declared_environ) == {"PATH", "LC_ALL"}
    assert names(children.given_environ) == ALL - {"WAKEFUL_GATEWAY__TOKEN"}


def test_the_configuration_adds_names(knowing: Callable[..., None]) -> None:
    """`daemon.pass_environment` holds for agents and hooks, never for a setting of Wakeful."""
    knowing((), ("MY_*", "DATABASE_URL", "WAKEFUL_*"))
    added = {"MY_TOOL", "MY_OTHER", "DATABASE_URL"}
    assert added <= names(children.agent_environ)
    assert added <= names(children.hook_environ)
    assert not added & names(children.helper_environ)
    knowing((), ("*",))
    assert names(children.agent_environ) == ALL - {"WAKEFUL_GATEWAY__TOKEN"}


NAMED = [name for name in KEYS if KEYS[name].is_secret]


@pytest.mark.parametrize("name", [*NAMED, "store.url", "gateway.allow"])
def test_no_setting_is_passed_on(name: str) -> None:
    """Every secret of the configuration, and every other setting, is left out of what a person gives, too."""
    variable = f"WAKEFUL_{name.replace('.', '__').upper()}"
    given = {variable: "s3cret", "PATH": "/bin", "WAKEFUL_HOME": "/h", "GH_TOKEN": "theirs"}
    assert children.given_environ(given) == {"PATH": "/bin", "WAKEFUL_HOME": "/h", "GH_TOKEN": "theirs"}


def test_a_mistyped_secret_is_not_passed_on() -> None:
    """One underscore is forgotten easily, and the value is no less secret."""
    given = {"WAKEFUL_GATEWAY_TOKEN": "s3cret", "WAKEFUL_JOURNAL_KEY": "k"}
    assert children.given_environ(given) == {"WAKEFUL_JOURNAL_KEY": "k"}


def test_a_secret_is_known_by_its_value(knowing: Callable[..., None]) -> None:
    """Under any name, inside a longer text, and by the password or the token that an address holds."""
    address = "slack://T1A2B3C4D5E6F7A8B9C0D1E2/B/C"
    config = Config(
        gateway=GatewayConfig(token=Secret("123456:bot-secret")),
        alerts=AlertsConfig(urls=(Secret(address), Secret("mailto://me:pass%40word@mail.example"))),
    )
    knowing(secret_values(config))
    values = {
        *("123456:bot-secret", "https://api/bot123456:bot-secret/getMe", address),
        *("T1A2B3C4D5E6F7A8B9C0D1E2", "pass@word", "pass%40word"),
    }
    for maker in (children.given_environ, children.agent_environ, children.hook_environ):
        held = maker({f"ANTHROPIC_{number}": value for number, value in enumerate(sorted(values))})
        assert held == {}
    assert children.given_environ({"A": "mail.example", "B": "123456", "C": ""}) == {
        "A": "mail.example",
        "B": "123456",
        "C": "",
    }


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("", set()),
        ("abc", {"abc"}),
        ("redis://:hunter2@h:1/0", {"redis://:hunter2@h:1/0", "hunter2"}),
        ("http://[broken", {"http://[broken"}),
        (
            "unix:///home/someone/a-folder-with-a-long-name/redis.sock",
            {"unix:///home/someone/a-folder-with-a-long-name/redis.sock"},
        ),
        ("redis://:pw@db/a-database-with-a-long-name", {"redis://:pw@db/a-database-with-a-long-name", "pw"}),
    ],
)
def test_the_words_of_a_secret(secret: str, words: set[str]) -> None:
    """Nothing is compared with an empty text, and an address that is none is one word."""
    assert secret_parts(secret) == words


def test_a_short_secret_hides_only_itself(knowing: Callable[..., None]) -> None:
    """A secret of one letter does not empty the environment."""
    knowing(("a",))
    assert children.given_environ({"X": "a", "PATH": "/a"}) == {"PATH": "/a"}


def test_a_tmux_server_forgets_what_it_took_along(knowing: Callable[..., None]) -> None:
    """Our settings and secrets, and what it took from a daemon; what a person set there stays."""
    knowing(("bot-secret",))
    held = {"WAKEFUL_GATEWAY__TOKEN": "1", "BOT": "bot-secret", "STRIPE": "k", "MINE": "1", "PATH": "/bin"}
    assert children.leaked_names(held, {"STRIPE": "k", "PATH": "/bin"}) == [
        "BOT",
        "STRIPE",
        "WAKEFUL_GATEWAY__TOKEN",
    ]


def test_every_start_of_a_program_uses_it() -> None:
    """A start of a program says `env=` and one of the functions of `children`; `own_environ` is for Wakeful's own."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in sources()
        for call in _starts(path)
        if not _is_clean(call, {"own_environ"} if str(path.relative_to(SOURCE)) in OWN else set())
    ]
    assert wrong == []


def test_no_other_way_to_start_a_program() -> None:
    """The calls above are found by their names, so nothing imports them under another one."""
    wrong = []
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                named = {
                    each.name for each in node.names if each.name in OTHERS or each.asname == "subprocess"
                }
                named |= {
                    each.name for each in node.names if each.name in ("subprocess", "os") and each.asname
                }
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                named = {module} & (OTHERS | {"subprocess", "asyncio.subprocess"})
                named |= {
                    each.name for each in node.names if module == "asyncio" and each.name in STARTS - {"run"}
                }
                named |= {
                    each.name for each in node.names if module == "os" and each.name.startswith(REPLACES)
                }
            elif isinstance(node, ast.Attribute):
                named = {node.attr} & {"subprocess_exec", "subprocess_shell", "ProcessPoolExecutor"}
            else:
                continue
            wrong += [f"{path.relative_to(SOURCE)}:{node.lineno} {each}" for each in named]
    assert wrong == []


def test_nothing_copies_the_environment() -> None:
    """`os.environ` as a whole goes only to functions that look names up, or that make an environment from a list."""
    wrong = []
    for path in sources():
        tree = parsed(path)
        allowed = {id(node) for node in ast.walk(tree) for node in _harmless(node)}
        wrong += [
            f"{path.relative_to(SOURCE)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and _is_environ(node) and id(node) not in allowed
        ]
    assert wrong == []


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "testing"]


def _is_environ(node: ast.Attribute) -> bool:
    return ast.unparse(node) == "os.environ"


def _harmless(node: ast.AST) -> Iterator[ast.AST]:
    """The uses of `os.environ` in this node that take out single names, or hand it to a reader."""
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in ("get", "pop")):
        yield node.value
    elif isinstance(node, ast.Compare):
        yield from node.comparators
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in READERS:
        for each in node.args:
            yield from (each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,)


def _starts(path: Path) -> list[ast.Call]:
    calls = [each for each in ast.walk(parsed(path)) if isinstance(each, ast.Call)]
    return [call for call in calls if _starts_a_program(call.func)]


def _starts_a_program(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    module, name = ast.unparse(called.value), called.attr
    return (
        module in ("subprocess", "asyncio", "asyncio.subprocess")
        and name in STARTS
        and (module, name) != ("asyncio", "run")
    ) or (module == "os" and name.startswith(REPLACES))


def _is_clean(call: ast.Call, more: set[str]) -> bool:
    given = [each.value for each in call.keywords if each.arg == "env"] or call.args[2:3]
    made = [
        part
        for each in given
        for part in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))
    ]
    return bool(made) and all(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in MAKERS | more
        for each in made
    )
