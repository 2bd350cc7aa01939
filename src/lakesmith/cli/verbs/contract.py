"""`lakesmith contract`."""

from __future__ import annotations

import click

from lakesmith.cli.contract_exchange import export_verb, import_verb, publish_verb


@click.group("contract", context_settings={"help_option_names": ["-h", "--help"]})
def verb() -> None:
    """Export, import and publish contracts.

    A contract is what is promised of a table: its columns, its checks and what may change.
    """


for command in (export_verb, import_verb, publish_verb):
    verb.add_command(command)
