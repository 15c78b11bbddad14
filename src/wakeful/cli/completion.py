"""`wakeful completion bash|zsh|fish`: the script that makes a shell ask how a word could go on."""

import click
from click.shell_completion import get_completion_class

from wakeful.cli.output import show_json

# What the script sets when it asks; `app` looks for it.
VARIABLE = "_WAKEFUL_COMPLETE"


@click.command(epilog='Example: eval "$(wakeful completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> int:
    """Print the completion script of a shell: commands, options, and the ids and names the daemon knows.

    \b
    bash: eval "$(wakeful completion bash)"        in ~/.bashrc
    zsh:  eval "$(wakeful completion zsh)"         in ~/.zshrc, after compinit
    fish: wakeful completion fish > ~/.config/fish/completions/wakeful.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows the shells we offer"
    script = found(context.find_root().command, {}, "wakeful", VARIABLE).source()
    # click's script for fish would end every explanation at its first comma.
    show_json(script.replace('(string split ","', '(string split -m 1 ","').encode())
    return 0
