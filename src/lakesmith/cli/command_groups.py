"""Groups of commands. All report an unknown command in the same way."""

from __future__ import annotations

import click

from lakesmith.errors import did_you_mean


class Commands(click.Group):
    """A group of commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        commands = self.list_commands(ctx)
        if args and args[0] not in commands and not ctx.resilient_parsing:
            hint = did_you_mean(args[0], commands, label="commands")
            typed = f"{ctx.info_name} {args[0]}" if ctx.parent else args[0]
            raise click.UsageError(f"there is no command '{typed}'\n  hint: {hint}", ctx)
        return super().resolve_command(ctx, args)
