"""`lakesmith doctor`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.output import Styled, page, print_json
from lakesmith.errors import InfrastructureError, UsageError
from lakesmith.reports import Finding


@click.command("doctor", cls=Command)
@click.option("--fix", is_flag=True, help="Fix what can be fixed.")
@click.option("--deep", is_flag=True, help="Also start Spark.")
def doctor(call: Call, fix: bool, deep: bool) -> int:
    """Check Java, jars, Spark, storage and versions.

    Says how to fix each problem. Outside a lake, checks no storage.
    """
    findings = _findings(call, fix=fix, deep=deep)
    fine = all(finding.ok for finding in findings)
    if call.as_json:
        print_json({"ok": fine, "findings": findings})
    else:
        out = page()
        width = max((len(finding.subject) for finding in findings), default=0)
        for finding in findings:
            sign = Styled("ok   ", "good") if finding.ok else Styled("fail ", "bad")
            out.line(sign, f"  {finding.subject:<{width}}  {finding.found}")
            if finding.fix and not finding.ok:
                out.line(" " * 7 + " " * width + "  fix: ", Styled(finding.fix, "strong"))
    return 0 if fine else InfrastructureError.exit_code


def _findings(call: Call, *, fix: bool, deep: bool) -> tuple[Finding, ...]:
    try:
        call.lake_folder()
    except UsageError:
        if call.folder is not None:
            raise
        from lakesmith.doctor import diagnose

        return diagnose(None, fix=fix, deep=deep)
    return call.open().doctor(fix=fix, deep=deep)
