"""No byte from outside becomes text where an exception could travel: what the lint rule (TID251) cannot see of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
# Bytes that only Wakeful itself or the kernel writes, or that were decoded once before.
OWN = {
    "http/websocket.py": "what Wakeful encoded",
    "http/auth.py": "Wakeful's own token",
    "http/connection.py": "what Wakeful encoded",
    "mcp/server.py": "what the daemon encoded",
    "cli/commands/gateway.py": "decoded by `combine` before",
    "cli/difference.py": "decoded when the plan was made",
    "cli/config_file.py": "decoded by `combine` before",
    "config/edit.py": "decoded by `combine` before",
    "cli/doctor/checks.py": "a number of the kernel",
    "integrations/claude_code/background.py": "digits and letters that a pattern found",
    "integrations/codex/rollout.py": "digits that a pattern found",
    "watchdog/redis_queue.py": "part of Wakeful",
    "storage/sqlite/database.py": "part of Wakeful",
    "linux/tcp_peers.py": "a table of the kernel",
    "linux/host.py": "a table of the kernel",
    "linux/proc.py": "a table of the kernel",
    "linux/systemd.py": "a table of the kernel",
    "integrations/tmux/panes.py": "its caller takes a ValueError for another format",
    "integrations/tmux/start.py": "numbers of tmux's own",
}
CAUGHT = {"UnicodeDecodeError", "UnicodeError", "ValueError", "Exception"}


def strict_decodings(tree: ast.AST, is_caught: bool = False) -> Iterator[int]:
    """Lines that decode bytes and would raise for some of them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try):
            caught = is_caught or any(_names(handler) & CAUGHT for handler in node.handlers)
            for inner in node.body:
                yield from strict_decodings(ast.Module([inner], []), caught)
            for other in (*node.handlers, *node.orelse, *node.finalbody):
                yield from strict_decodings(ast.Module([other], []), is_caught)  # type: ignore[list-item]
            continue
        if isinstance(node, ast.Call) and not is_caught and _is_strict(node):
            yield node.lineno
        yield from strict_decodings(node, is_caught)


def _names(handler: ast.ExceptHandler) -> set[str]:
    return {each.id for each in ast.walk(handler.type or ast.Name("Exception")) if isinstance(each, ast.Name)}


def _is_strict(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"decode", "read_text"}:
        return False
    if any(keyword.arg == "errors" for keyword in call.keywords) or len(call.args) > 1:
        return False
    if [each.value for each in call.args if isinstance(each, ast.Constant)] == ["latin-1"]:
        return False
    # What was just encoded here can be decoded.
    return not _is_encoding(call.func.value)


def _is_encoding(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return name.lstrip("_") in {"encode", "b32encode", "urlsafe_b64encode"}


def places() -> dict[str, list[int]]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if not name.startswith("testing/") and name != "core/decoding.py":
            found[name] = list(strict_decodings(ast.parse(path.read_text())))
    return {name: lines for name, lines in found.items() if lines}


def test_foreign_bytes_are_never_decoded_strictly() -> None:
    """Every other decoding replaces what is no text, or stands where the error is caught."""
    assert {name: lines for name, lines in places().items() if name not in OWN} == {}


def test_the_list_of_own_bytes_is_no_longer_than_it_must_be() -> None:
    """A place that is gone is taken off the list."""
    assert set(OWN) - set(places()) == set()


def test_a_strict_decoding_is_seen() -> None:
    """The rule itself: with errors, caught, or of our own encoding is none."""
    text = (
        "a.decode()\na.decode('ascii')\na.decode(errors='replace')\na.decode('utf-8', 'replace')\nb.encode().decode()\n"
        "try:\n    a.decode()\nexcept ValueError:\n    a.decode()\np.read_text()\na.decode('latin-1')\n"
    )
    assert list(strict_decodings(ast.parse(text))) == [1, 2, 9, 10]
