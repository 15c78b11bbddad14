"""Every GET route that the daemon describes, so that a new one is part of every test of what is shown."""

from typing import Any, Final

# Pages of the interface itself, and the ones without words of sessions.
_OF_NO_SESSION: Final = frozenset({"/api/openapi.json", "/healthz", "/readyz"})
_QUERIES: Final = {
    "/api/sessions": "?all=true&limit=500",
    "/api/incidents": "?all=true",
    "/api/find": "?name=a",
    "/api/report": "?since=24h",
    "/api/timeline": "?hours=24",
    "/wait": "?timeout=0",
}
ONE: Final = "/api/sessions/{session_id}"


def fleet_targets(described: dict[str, Any]) -> list[str]:
    """Those that need no id."""
    return [f"{path}{_QUERIES.get(path, '')}" for path in _paths(described) if "{" not in path]


def session_views(described: dict[str, Any]) -> list[str]:
    """What follows the path of a session, its record first."""
    views = [path.removeprefix(ONE) for path in _paths(described) if path.startswith(ONE)]
    return sorted(f"{view}{_QUERIES.get(view, '')}" for view in views if "{" not in view)


def _paths(described: dict[str, Any]) -> list[str]:
    found = [path for path, verbs in described["paths"].items() if "get" in verbs]
    return [path for path in found if path not in _OF_NO_SESSION]
