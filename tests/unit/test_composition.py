"""Claims about how objects are put together: everything an object needs is there when it is built."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
ARGUMENTS_MAX = 8
# Bare callables that constructors take, over the whole tree. The number only becomes smaller.
CALLABLES_MAX = 60
CALLABLES_EACH_MAX = 2


def classes(folder: Path = SOURCE) -> Iterator[ast.ClassDef]:
    for path in folder.rglob("*.py"):
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def constructors() -> Iterator[tuple[str, list[ast.arg]]]:
    for each in classes():
        for node in each.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                yield each.name, [*node.args.args[1:], *node.args.kwonlyargs]


def test_no_constructor_takes_more_than_eight_arguments() -> None:
    """An object that needs more is two, or lacks one that joins its arguments."""
    assert [name for name, arguments in constructors() if len(arguments) > ARGUMENTS_MAX] == []


def test_objects_are_passed_and_not_callables() -> None:
    """An object with named methods says what is asked of it."""
    counts = [(name, sum(map(_is_callable, arguments))) for name, arguments in constructors()]
    assert [name for name, count in counts if count > CALLABLES_EACH_MAX] == []
    assert sum(count for _, count in counts) <= CALLABLES_MAX


def test_the_daemon_assigns_no_hooks() -> None:
    """Other objects are given everything at once; afterwards only plain facts are written to them."""
    written = [
        f"{path.name}:{node.lineno}"
        for path in (SOURCE / "daemon").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Attribute) and not _is_own(target)
    ]
    assert written == []


def test_no_object_assigns_a_function_to_another_one() -> None:
    """What an object calls is given to its constructor; elsewhere, too."""
    written = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for owner in ast.walk(ast.parse(path.read_text()))
        if isinstance(owner, ast.ClassDef)
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign)
        and (isinstance(node.value, ast.Lambda) or _is_method(node.value, owner))
        for target in node.targets
        if isinstance(target, ast.Attribute) and not _is_own(target)
    ]
    assert written == []


def test_the_daemon_is_composed() -> None:
    """It has parts, and is none of them."""
    (daemon,) = [each for each in classes(SOURCE / "daemon") if each.name == "Daemon"]
    assert daemon.bases == []


def test_no_part_of_the_daemon_hands_itself_out_before_it_is_built() -> None:
    """A constructor passes neither `self` nor a method of its own to the objects that it builds."""
    early = [
        f"{each.name}:{call.lineno}"
        for package in ("daemon", "sessions", "control", "views")
        for each in classes(SOURCE / package)
        for init in each.body
        if isinstance(init, ast.FunctionDef) and init.name == "__init__"
        for call in ast.walk(init)
        if isinstance(call, ast.Call)
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
        if _is_self(value) or _is_method(value, each)
    ]
    assert early == []


def _is_callable(argument: ast.arg) -> bool:
    return argument.annotation is not None and "Callable" in ast.unparse(argument.annotation)


def _is_own(target: ast.Attribute) -> bool:
    return _is_self(target.value)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_method(node: ast.expr, owner: ast.ClassDef) -> bool:
    methods = {each.name for each in owner.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return isinstance(node, ast.Attribute) and _is_self(node.value) and node.attr in methods


# Built by `build_controllers`, `build_healer`, `build_wake`, `connect_hub` and `build_reports` of `wakeful.daemon`.
BUILT_BY_FACTORIES = {
    "AutoRestart",
    "Healer",
    "HealingCases",
    "Hub",
    "ReportService",
    "Reviver",
    "SessionController",
    "WakeService",
}


def test_fixtures_build_with_the_factories_of_the_daemon() -> None:
    """No fixture constructs a part that a factory of the daemon builds."""
    own = [
        f"{path.name}:{node.lineno} {node.func.id}"
        for path in (Path(__file__).parents[1] / "support").glob("*_fixture.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in BUILT_BY_FACTORIES
    ]
    assert own == []
