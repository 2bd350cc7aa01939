"""Makes the plan from declarations and facts: which steps, in which order, and why each of them.

Each build gets the cheapest mode that provably gives the same rows as a full build. Where that is a full build,
the step says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from shlex import quote

from lakesmith.declare import (
    Files,
    Jdbc,
    Kafka,
    LakeDeclaration,
    Source,
    Table,
    TableName,
    source_text,
)
from lakesmith.declare.spark_type import read_type
from lakesmith.errors import DataError, DeclarationError, LakesmithError, UsageError
from lakesmith.plan.backfill import backfill_chunks, day_column, unfinished_backfill_text
from lakesmith.plan.checks import referenced_tables, shuffle_checks
from lakesmith.plan.fingerprint import checks_changed, definition, rebuild_reason
from lakesmith.plan.graph import Graph
from lakesmith.plan.modes import Modes
from lakesmith.plan.order import place_of_input
from lakesmith.plan.steps import (
    Backfill,
    Build,
    Finish,
    Ingest,
    Input,
    LakeFacts,
    Plan,
    Progress,
    QuarantineFilter,
    Replay,
    ReplayQuarantine,
    Status,
    Step,
    TablePlan,
    Widen,
)
from lakesmith.plan.widening import widens
from lakesmith.ports import ColumnFact, FileFact, Slice, TableFacts


def make_plan(
    lake: LakeDeclaration,
    graph: Graph,
    facts: LakeFacts,
    *,
    selected: frozenset[TableName],
    full_refresh: bool = False,
    backfill: Backfill | None = None,
    backfilled: frozenset[TableName] = frozenset(),
) -> Plan:
    """Return the plan that updates the selected tables and backfills the requested days. A problem of one table does
    not stop the others."""
    planning = _Planning(
        lake=lake,
        graph=graph,
        facts=facts,
        selected=selected,
        full_refresh=full_refresh,
        backfill=backfill,
        backfilled=backfilled,
    )
    for name in graph.order:
        if name in selected and lake.tables[name].enabled:
            planning.add(lake.tables[name])
    return Plan(
        lake=lake.name,
        environment=lake.environment.name,
        tables=tuple(planning.planned.values()),
        problems=tuple(planning.problems),
    )


def size(count: int) -> str:
    """Format a number of bytes."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


@dataclass(slots=True, kw_only=True)
class _Planning:
    """The plan under construction. Tables are added after their inputs."""

    lake: LakeDeclaration
    graph: Graph
    facts: LakeFacts
    selected: frozenset[TableName]
    full_refresh: bool
    backfill: Backfill | None
    backfilled: frozenset[TableName]
    """The tables whose days are backfilled."""
    planned: dict[TableName, TablePlan] = field(default_factory=dict)
    problems: list[LakesmithError] = field(default_factory=list)
    blocked: set[TableName] = field(default_factory=set)
    """Tables that have a problem or read a table that has one."""
    empty: set[TableName] = field(default_factory=set)
    """Tables that this plan does not create, because no data has arrived for them yet."""

    def add(self, table: Table) -> None:
        try:
            rebuilt = self.full_refresh and not isinstance(table.origin, Source)
            if table.name in self.facts.problems and not rebuilt:
                raise self.facts.problems[table.name]
            planned = self._bronze(table, table.origin) if isinstance(table.origin, Source) else self._derived(table)
        except LakesmithError as error:
            self.problems.extend(error.errors)
            self.blocked.add(table.name)
            planned = TablePlan(table=table.name, status="unchanged", reason=error.errors[0].what)
        planned = self._with_expiry(table, planned)
        if planned.steps:
            checked = [name for name in referenced_tables(table) if self._steps(name) and name not in planned.after]
            planned = replace(planned, after=(*planned.after, *checked), shuffles=shuffle_checks(table))
        self.planned[table.name] = replace(planned, skipped=self.facts.skipped.get(table.name, ()))

    def _with_expiry(self, table: Table, planned: TablePlan) -> TablePlan:
        """Discard rows that are in quarantine for too long, after the table's other steps."""
        limit, rows = table.quarantine.discard_after, self.facts.quarantine_expired.get(table.name, 0)
        rebuilt = any(isinstance(step, Build) and step.rebuild for step in planned.steps)
        if limit is None or not rows or rebuilt or table.name in self.blocked:
            return planned
        reason = f"{rows} rows are in quarantine for longer than {limit / 86400:g} days"
        replay = Replay(chosen=QuarantineFilter(older_than=limit), by="policy", why=reason, discard=True)
        step = ReplayQuarantine(table=table.name, replay=replay, reason=reason)
        reason = f"{planned.reason}; {reason}" if planned.steps else reason
        return replace(planned, status="changed", reason=reason, steps=(*planned.steps, step))

    def _progress(self, table: Table) -> Progress:
        return self.facts.progress.get(table.name, Progress())

    def _status(self, table: Table) -> Status:
        return "changed" if table.name in self.facts.tables else "added"

    def _bronze(self, table: Table, source: Source) -> TablePlan:
        """Plan one ingest step per batch of new data in the source. Each is a commit of its own."""
        if table.name in self.backfilled:
            day_column(table, None)
        if table.adopted is not None:
            return self._adopted(table, table.adopted)
        progress = self._progress(table)
        wider = _wider_types(table, self.facts.tables.get(table.name))
        _refuse_other_source(table, source, progress)
        steps: list[Step] = self._finish(table, progress)
        arrived = self._new_batches(table, source, progress)
        steps.extend([*wider, *arrived])
        if arrived:
            reason = _files_text([file for step in arrived for file in step.files]) or arrived[0].reason
            reason = "; ".join([*(step.reason for step in wider), reason])
        elif steps:
            reason = steps[-1].reason
        elif table.name not in self.facts.tables:
            self.empty.add(table.name)
            reason = f"nothing has arrived yet ({source_text(source)})"
        elif self.full_refresh:
            reason = "nothing new; a full refresh leaves bronze as it arrived"
        else:
            listing = self.facts.listings.get(table.name)
            reason = f"nothing new after {listing.after}" if listing and listing.after else "nothing new"
        status = self._status(table) if steps else "unchanged"
        return TablePlan(table=table.name, status=status, reason=reason, steps=tuple(steps))

    def _adopted(self, table: Table, location: str) -> TablePlan:
        if table.name not in self.facts.tables:
            raise DataError(
                "not-adopted",
                f"there is no Delta table at {location}",
                at=table.declared_at,
                table=str(table.name),
                hint=f"check the path; to convert a folder of Parquet files in place: lakesmith adopt {table.name}",
            )
        reason = f"adopted in place ({location}): nothing to do"
        return TablePlan(table=table.name, status="unchanged", reason=reason)

    def _new_batches(self, table: Table, source: Source, progress: Progress) -> list[Ingest]:
        if isinstance(source, Files):
            landing = self.facts.landing.get(table.name, ())
            _refuse_changed_files(table, landing, progress.ingested)
            new = sorted(file for file in landing if file.path not in progress.ingested)
            listing = self.facts.listings.get(table.name)
            steps = []
            for files in _batches(new, source.max_files, source.max_bytes):
                steps.append(Ingest(table=table.name, files=files, listing=listing, reason=_files_text(files)))
                listing = listing and replace(listing, after=files[-1].path)
            return steps
        new_slice = self.facts.slices.get(table.name)
        if new_slice is None:
            return []
        return [Ingest(table=table.name, slice=new_slice, reason=slice_text(source, new_slice))]

    def _finish(self, table: Table, progress: Progress) -> list[Step]:
        # A full refresh rebuilds rows and quarantine, so the batch need not be finished; and its inputs may be gone.
        if progress.unfinished is None or (self.full_refresh and not isinstance(table.origin, Source)):
            return []
        if progress.unfinished_definition is not None and progress.unfinished_definition != definition(table):
            alternative = (
                ""
                if isinstance(table.origin, Source)
                else f"; or rebuild it: lakesmith run {table.name} --full-refresh"
            )
            raise DataError(
                "unfinished-under-other-definition",
                f"batch {progress.unfinished} of {table.name} was interrupted, then its declaration changed",
                at=table.declared_at,
                table=str(table.name),
                hint=f"restore {table.declared_at.file} as it was, run once, then change it{alternative}",
            )
        return [
            Finish(
                table=table.name,
                sequence=progress.unfinished,
                reason=f"batch {progress.unfinished} was interrupted before it was finished",
            )
        ]

    def _derived(self, table: Table) -> TablePlan:
        name = table.name
        upstream = self.graph.upstream(name)
        blocking = next((each for each in upstream if each in self.blocked), None)
        if blocking is not None:
            self.blocked.add(name)
            return TablePlan(table=name, status="unchanged", reason=f"waits for {blocking}, which has a problem")
        missing = [each for each in upstream if each not in self.facts.tables and not self._steps(each)]
        for each in missing:
            if each not in self.empty and self.facts.landing.get(each) != ():
                raise self._missing_input(table, each)
        after = tuple(each for each in upstream if self._steps(each))
        progress = self._progress(table)
        if missing:
            if name not in self.facts.tables:
                self.empty.add(name)
            return TablePlan(table=name, status="unchanged", reason=f"{missing[0]} has no rows yet")
        steps: list[Step] = self._finish(table, progress)
        build, reason = self._build(table, progress)
        if build is not None:
            steps.append(build)
        elif steps:
            reason = steps[0].reason
        if self.backfill is not None and name in self.backfilled:
            days = backfill_chunks(table, self.facts.tables.get(name), progress, upstream, self.backfill)
            steps.extend(days)
            reason = "; ".join([*([reason] if build else []), f"backfill of {self.backfill.span} was requested"])
        elif progress.backfill is not None:
            reason = f"{reason}; {unfinished_backfill_text(name, progress.backfill)}"
        status = self._status(table) if steps else "unchanged"
        return TablePlan(table=name, status=status, reason=reason, steps=tuple(steps), after=after if steps else ())

    def _steps(self, name: TableName) -> tuple[Step, ...]:
        """Return the steps that are planned for a table so far."""
        return self.planned[name].steps if name in self.planned else ()

    def _missing_input(self, table: Table, name: TableName) -> LakesmithError:
        declared = self.lake.tables[name]
        if not declared.enabled:
            why, hint = "is disabled and was never built", f"enable it in {declared.declared_at.file}"
        else:
            why, hint = "was never built and is not selected", f"lakesmith run +{table.name}"
        return UsageError(
            "input-missing",
            f"{table.name} reads {name}, which {why}",
            at=place_of_input(table, name),
            table=str(table.name),
            hint=hint,
        )

    def _build(self, table: Table, progress: Progress) -> tuple[Build | None, str]:
        """Return the build that the table needs, if any, with the reason for building it or not."""
        rebuild = self._rebuild_reason(table, progress)
        if rebuild is not None:
            inputs = tuple(Input(table=each, since=None) for each in self.graph.upstream(table.name))
            return Build(table=table.name, mode="full", inputs=inputs, reason=rebuild, rebuild=True), rebuild
        changed = self._changed_inputs(table, progress)
        if not changed:
            up_to_date = "up to date"
            if progress.definition is not None and checks_changed(progress.definition, table):
                up_to_date = "up to date; its checks changed and apply to later rows"
            return None, up_to_date
        reason = "; ".join(changed.values())
        choice = Modes(lake=self.lake, graph=self.graph, facts=self.facts, steps=self._steps)
        mode, cost_reason = choice.cheapest(table, progress, frozenset(changed))
        followed = frozenset(changed) if mode != "full" else frozenset()
        for each in followed:
            self._refuse_gap(table, each, progress)
        inputs = tuple(
            Input(table=each, since=progress.positions[str(each)].version if each in followed else None)
            for each in self.graph.upstream(table.name)
        )
        return Build(table=table.name, mode=mode, inputs=inputs, reason=reason, cost_reason=cost_reason), reason

    def _rebuild_reason(self, table: Table, progress: Progress) -> str | None:
        name = table.name
        if name not in self.facts.tables:
            return "new table"
        if self.full_refresh:
            return "full refresh was requested"
        if progress.definition is None:
            raise DataError(
                "unknown-progress",
                f"{name} exists, but no batch of this lake is recorded in it",
                at=table.declared_at,
                table=str(name),
                hint=f"to replace it by a build of the declaration: lakesmith run {name} --full-refresh",
            )
        what = rebuild_reason(progress.definition, table)
        if what is not None:
            return f"{what} changed since the last run ({table.declared_at.file})"
        for each in self.graph.upstream(name):
            position = progress.positions.get(str(each))
            now = self.facts.tables.get(each)
            if position is None:
                return f"{each} was not read before"
            if now is None:
                return f"{each} is rebuilt in this run"
            if now.table_id != position.table_id or now.version < position.version:
                return f"{each} was dropped and created again"
        return None

    def _changed_inputs(self, table: Table, progress: Progress) -> dict[TableName, str]:
        """Return the inputs with rows that the table has not read, each with a description."""
        changed: dict[TableName, str] = {}
        for each in self.graph.upstream(table.name):
            seen, now = progress.positions[str(each)].version, self.facts.tables[each].changed
            # Finishing a batch changes no row: its rows are committed.
            if any(not isinstance(step, Finish) for step in self._steps(each)):
                changed[each] = f"{each} changes in this run"
            elif now > seen:
                versions = "a new version" if now - seen == 1 else f"{now - seen} new versions"
                changed[each] = f"{each} has {versions} ({seen} → {now})"
        return changed

    def _refuse_gap(self, table: Table, source: TableName, progress: Progress) -> None:
        seen, oldest = progress.positions[str(source)].version, self.facts.tables[source].oldest
        if oldest > seen + 1:
            raise DataError(
                "source-gap",
                f"{table.name} has read {source} up to version {seen}, but the log begins at {oldest}: "
                "the changes in between are gone",
                at=table.declared_at,
                table=str(table.name),
                hint=f"rebuild it from all rows once: lakesmith run {table.name} --full-refresh",
            )


def _refuse_other_source(table: Table, source: Source, progress: Progress) -> None:
    """Raise when the source changed: the recorded position means nothing in another source."""
    if progress.definition is None:
        return
    if isinstance(source, Files):
        other = bool(progress.source_position)
    else:
        # A source that was read completely may continue by a watermark.
        began = isinstance(source, Jdbc) and "watermark" not in progress.source_position and not progress.ingested
        other = not began and rebuild_reason(progress.definition, table) == "query"
    if other:
        raise DeclarationError(
            "source-changed",
            f"{table.name} was read from another source than {source_text(source)}",
            at=table.declared_at,
            table=str(table.name),
            hint="restore the source, and give the new one a bronze table of its own",
        )


def _wider_types(table: Table, stored: TableFacts | None) -> list[Widen]:
    """Plan wider column types for a bronze table. Raise at any other type change: bronze stays as it arrived."""
    if stored is None or table.contract == "open":
        return []
    wider: list[ColumnFact] = []
    reasons: list[str] = []
    types = {column.name.lower(): column.type for column in stored.columns}
    for column in table.columns:
        stored_type = types.get(column.name.lower())
        if column.type is None or stored_type is None or stored_type == column.type:
            continue
        if not widens(read_type(stored_type), read_type(column.type)):
            raise DeclarationError(
                "type-changed",
                f"{column.name} is declared as {column.type}, but {table.name} stores it as {stored_type}",
                at=column.declared_at,
                table=str(table.name),
                hint=f"restore the type, and cast in silver: CAST({column.name} AS {column.type})",
            )
        wider.append(ColumnFact(column.name, column.type))
        reasons.append(f"{column.name} is declared wider ({stored_type} → {column.type})")
    return [Widen(table=table.name, columns=tuple(wider), reason="; ".join(reasons))] if wider else []


def _refuse_changed_files(table: Table, landing: tuple[FileFact, ...], ingested: Mapping[str, FileFact]) -> None:
    changed = [file for file in landing if file.path in ingested and ingested[file.path] != file]
    if not changed:
        return
    file, before = changed[0], ingested[changed[0].path]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    raise DataError(
        "file-changed",
        f"{file.path}{more} changed after it was ingested ({_difference(before, file)})",
        at=table.declared_at,
        table=str(table.name),
        hint="landing is append-only: restore the file and land the correction under a new name "
        f"(when only the time changed: touch -d @{before.modified / 1000} {quote(file.path)})",
    )


def _difference(before: FileFact, now: FileFact) -> str:
    sizes = "size unchanged" if before.size == now.size else f"size {size(before.size)} → {size(now.size)}"
    if before.modified == now.modified:
        return sizes
    return f"modified {_time(before)} → {_time(now)}, {sizes}"


def _time(file: FileFact) -> str:
    return datetime.fromtimestamp(file.modified / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def slice_text(source: Source, new: Slice) -> str:
    """Describe what is new in a source that is not files."""
    match source:
        case Kafka(topic=topic, starting=starting):
            if not new.since:
                return f"{topic} from now on" if starting == "latest" else f"all records of {topic} so far"
            count = sum(int(until) - int(new.since.get(at, 0)) for at, until in new.until.items() if "/" in at)
            return f"{count:,} new records of {topic}"
        case Jdbc(table=read, watermark=str(column)) if new.since.get("watermark"):
            return f"rows of {read} with {column} after {new.since['watermark']}"
        case Jdbc(table=read):
            return f"all rows of {read}"
        case _:
            since = f"{new.since['version']} → " if new.since else ""
            return f"version {since}{new.until['version']} of {source_text(source)}"


def _batches(files: Sequence[FileFact], most: int | None, size: int | None) -> Iterator[tuple[FileFact, ...]]:
    """Yield the files in order, in batches of at most `most` files and `size` bytes."""
    batch: list[FileFact] = []
    total = 0
    for file in files:
        if batch and ((most and len(batch) >= most) or (size and total + file.size > size)):
            yield tuple(batch)
            batch, total = [], 0
        batch.append(file)
        total += file.size
    if batch:
        yield tuple(batch)


def _files_text(files: Sequence[FileFact]) -> str:
    if not files:
        return ""
    count = "1 new file" if len(files) == 1 else f"{len(files)} new files"
    return f"{count}, {size(sum(file.size for file in files))}"
