"""The made files of the plugin for Claude Code: its hooks, and its version. `make docs` writes them."""

import json
from pathlib import Path
from typing import Any, Final

from wakeful import __version__
from wakeful.hooks.model import plugin_command, snippet

PLUGIN: Final = Path(__file__).parents[1] / "plugin"
MANIFEST: Final = PLUGIN / ".claude-plugin" / "plugin.json"


def hooks() -> str:
    return snippet("claude", plugin_command()) + "\n"


def manifest() -> str:
    """The manifest as it is, with Wakeful's version in the form that the client takes."""
    written: dict[str, Any] = json.loads(MANIFEST.read_text())
    return json.dumps({**written, "version": __version__.replace(".dev", "-dev.")}, indent=2) + "\n"


def main() -> None:
    (PLUGIN / "hooks" / "hooks.json").write_text(hooks())
    MANIFEST.write_text(manifest())
    print("plugin/")


if __name__ == "__main__":
    main()
