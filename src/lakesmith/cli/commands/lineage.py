"""`lakesmith lineage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.output import Grid, Page, Styled, Tree, page, print_json
from lakesmith.reports import Lineage

Neighbours = Mapping[str, tuple[str, ...]]


@click.command("lineage", cls=Command)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--columns", is_flag=True, help="Show columns too, where the query can be analysed.")
@click.option(
    "--format",
    type=click.Choice(["table", "json", "markdown", "mermaid"]),
    default="table",
    show_default=True,
    help="The output format; Markdown viewers draw mermaid as a graph.",
)
@json_option
@click.pass_obj
def command(
    call: Call,
    table: str | None,
    columns: bool,
    format: Literal["table", "json", "markdown", "mermaid"],
    as_json: bool,
) -> None:
    """Show where tables come from and where they go.

    With a table, shows its upstream and downstream tables. Without one, shows the whole lake.
    """
    found = call.open().lineage(table)
    shape = "json" if as_json else format
    match shape:
        case "json":
            print_json(found)
        case "mermaid":
            _show_mermaid(found)
        case "table" | "markdown":
            out = page(shape)
            _show_trees(out, found)
            if columns:
                out.line()
                _show_columns(out, found)


def _show_trees(out: Page, found: Lineage) -> None:
    up: dict[str, tuple[str, ...]] = dict.fromkeys(found.nodes, ())
    down: dict[str, tuple[str, ...]] = dict.fromkeys(found.nodes, ())
    for edge in found.edges:
        up[edge.target] = (*up.get(edge.target, ()), edge.source)
        down[edge.source] = (*down.get(edge.source, ()), edge.target)
    if found.table is None:
        for node in found.nodes:
            if not up[node]:
                out.tree(_tree(node, down, found, set()))
        return
    out.line(Styled("upstream", "strong"))
    out.tree(_tree(found.table, up, found, set()))
    out.line(Styled("downstream", "strong"))
    out.tree(_tree(found.table, down, found, set()))


def _tree(node: str, neighbours: Neighbours, found: Lineage, drawn: set[str]) -> Tree:
    """The nodes beyond one node. A node that was drawn before is only named."""
    label = (node, Styled(f"  ← {found.sources[node]}", "quiet")) if node in found.sources else (node,)
    beyond = neighbours.get(node, ())
    if node in drawn and beyond:
        return Tree(label=(*label, Styled("  (as above)", "quiet")))
    drawn.add(node)
    return Tree(label=label, branches=tuple(_tree(other, neighbours, found, drawn) for other in beyond))


def _show_columns(out: Page, found: Lineage) -> None:
    sources: dict[str, list[str]] = {}
    for edge in found.columns:
        sources.setdefault(edge.target, []).append(edge.source)
    out.grid(
        Grid(
            titles=("column", "derived from"),
            rows=tuple((target, ", ".join(made_from)) for target, made_from in sources.items()),
        )
    )


def _show_mermaid(found: Lineage) -> None:
    lines = ["flowchart LR"]
    lines += [f"    {_mermaid_id(node)}[{node}]" for node in found.nodes]
    lines += [f"    {_mermaid_id(edge.source)} --> {_mermaid_id(edge.target)}" for edge in found.edges]
    click.echo("\n".join(lines))


def _mermaid_id(node: str) -> str:
    # A dot in an id is syntax in Mermaid.
    return node.replace(".", "__")
