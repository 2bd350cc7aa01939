"""`lakesmith lineage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import click

from lakesmith.cli.call import Call, Command, complete_tables
from lakesmith.cli.output import Grid, Page, Styled, Tree, page, print_json
from lakesmith.reports import Lineage

Neighbours = Mapping[str, tuple[str, ...]]


@click.command("lineage", cls=Command)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--columns", is_flag=True, help="Also show columns, where the query can be analysed.")
@click.option(
    "--format",
    type=click.Choice(["table", "json", "markdown", "mermaid"]),
    default="table",
    show_default=True,
    help="The output format; Markdown viewers draw mermaid as a graph.",
)
def lineage(
    call: Call,
    table: str | None,
    columns: bool,
    format: Literal["table", "json", "markdown", "mermaid"],
) -> None:
    """Show where tables come from and where they go.

    With a table, shows its upstream and downstream tables. Without one, shows the whole lake.
    """
    lineage = call.open().lineage(table)
    shape = "json" if call.as_json else format
    match shape:
        case "json":
            print_json(lineage)
        case "mermaid":
            _show_mermaid(lineage)
        case "table" | "markdown":
            out = page(shape)
            _show_trees(out, lineage)
            if columns:
                out.line()
                _show_columns(out, lineage)


def _show_trees(out: Page, lineage: Lineage) -> None:
    up: dict[str, tuple[str, ...]] = dict.fromkeys(lineage.nodes, ())
    down: dict[str, tuple[str, ...]] = dict.fromkeys(lineage.nodes, ())
    for edge in lineage.edges:
        up[edge.target] = (*up.get(edge.target, ()), edge.source)
        down[edge.source] = (*down.get(edge.source, ()), edge.target)
    if lineage.table is None:
        for node in lineage.nodes:
            if not up[node]:
                out.tree(_tree(node, down, lineage, set()))
        return
    for title, neighbours in (("upstream", up), ("downstream", down)):
        out.line(Styled(title, "strong"))
        out.tree(_tree(lineage.table, neighbours, lineage, set()))


def _tree(node: str, neighbours: Neighbours, lineage: Lineage, drawn: set[str]) -> Tree:
    """The nodes beyond one node. A node that was drawn before is only named."""
    label = (node, Styled(f"  ← {lineage.sources[node]}", "quiet")) if node in lineage.sources else (node,)
    beyond = neighbours.get(node, ())
    if node in drawn and beyond:
        return Tree(label=(*label, Styled("  (as above)", "quiet")))
    drawn.add(node)
    return Tree(label=label, branches=tuple(_tree(other, neighbours, lineage, drawn) for other in beyond))


def _show_columns(out: Page, lineage: Lineage) -> None:
    sources: dict[str, list[str]] = {}
    for edge in lineage.columns:
        sources.setdefault(edge.target, []).append(edge.source)
    rows = tuple((target, ", ".join(columns)) for target, columns in sources.items())
    out.grid(Grid(titles=("column", "derived from"), rows=rows))


def _show_mermaid(lineage: Lineage) -> None:
    lines = ["flowchart LR"]
    lines += [f"    {_mermaid_id(node)}[{node}]" for node in lineage.nodes]
    lines += [f"    {_mermaid_id(edge.source)} --> {_mermaid_id(edge.target)}" for edge in lineage.edges]
    click.echo("\n".join(lines))


def _mermaid_id(node: str) -> str:
    # A dot in an id is syntax in Mermaid.
    return node.replace(".", "__")
