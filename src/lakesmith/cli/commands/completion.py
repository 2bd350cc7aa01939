"""`lakesmith completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lakesmith.cli.call import Call, Command


@click.command("completion", cls=Command, shared=())
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_: Call, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  eval "$(lakesmith completion bash)"     in ~/.bashrc
    zsh:   eval "$(lakesmith completion zsh)"      in ~/.zshrc
    fish:  lakesmith completion fish > ~/.config/fish/completions/lakesmith.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(click.get_current_context().find_root().command, {}, "lakesmith", "_LAKESMITH_COMPLETE").source())
