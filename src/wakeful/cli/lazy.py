"""A group of commands that are imported when they are run: `--help` and mistakes cost none of them."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """A command in its section of the help: where its code is (`module:attribute`) and one line about it."""

    section: str
    place: str
    summary: str


class LazyGroup(click.Group):
    """Knows its commands by name and summary; loads the one that was asked for."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self._entries or name.startswith("-"):
            return super().resolve_command(ctx, args)
        close = get_close_matches(name, self._entries, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise click.UsageError(f"No such command {name[:40]!r}.{meant}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """From the table: click's own way imports every command there is."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only shells ask

        named = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        width = max(map(len, self._entries))
        for section, rows in sections.items():
            with formatter.section(section):
                # One width for all sections, or every section would start its column elsewhere.
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])
