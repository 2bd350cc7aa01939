"""Collects the problems of a lake's declarations, so that one call shows all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakesmith.declare.names import TableName
from lakesmith.errors import DeclarationError, LakesmithError, Place, Problems


class ProblemList(list[LakesmithError]):
    """The problems found so far."""

    def add_error(self, code: str, what: str, at: Place | None, hint: str) -> None:
        self.append(DeclarationError(code, what, at=at, hint=hint))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the problems that are raised inside the context."""
        try:
            yield
        except Problems as problems:
            self.extend(problems.errors)
        except LakesmithError as problem:
            self.append(problem)

    @contextmanager
    def about(self, table: TableName) -> Iterator[None]:
        """Name the table in the problems that are added inside the context."""
        first = len(self)
        yield
        for problem in self[first:]:
            problem.table = str(table)
