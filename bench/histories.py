"""A history without Lakesmith, on clones of its table: by a hand-written MERGE, and by a complete rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGED = "changed"


class Clone:
    """A shallow clone of a table with one row of a key for each interval, and the rows that change it."""

    def __init__(self, spark: SparkSession, table: Path, at: Path, columns: Sequence[str], changed: DataFrame) -> None:
        self._spark, self._columns = spark, columns
        self._at, self._name = str(at), f"delta.`{at}`"
        spark.sql(f"CREATE TABLE {self._name} SHALLOW CLONE delta.`{table}`")
        spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        changed.createOrReplaceTempView(_CHANGED)

    def merge(self) -> None:
        """Merge each changed row twice: once to close an interval, once to open the next."""
        compared = [name for name in self._columns if name not in ("id", "at")]
        differs = f"({_each(compared, 's')}) <> ({_each(compared, 't')})"
        self._spark.sql(
            f"MERGE INTO {self._name} AS t USING (SELECT id AS merge_key, * FROM {_CHANGED} UNION ALL "
            f"  SELECT NULL, s.* FROM {_CHANGED} AS s JOIN {self._name} AS t ON s.id = t.id "
            f"  WHERE t.is_current AND {differs}) AS s ON t.id = s.merge_key AND t.is_current "
            f"WHEN MATCHED AND {differs} THEN UPDATE SET valid_to = s.at, is_current = false "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(self._columns)}, valid_from, valid_to, is_current) "
            f"VALUES ({_each(self._columns, 's')}, s.at, NULL, true)"
        ).collect()

    def rewrite(self) -> None:
        """Overwrite the table by SQLMesh's joins for the next state of a history on Spark, but from the changed rows
        instead of all source rows."""
        both = ", ".join(f"o.{name} AS was_{name}, s.{name}" for name in self._columns)
        matched = f"{both}, o.valid_from, o.valid_to"
        updated = ", ".join(f"coalesce(was_{name}, m.{name}) AS {name}" for name in self._columns)
        self._spark.sql(
            f"WITH changes AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY id) AS at_most "
            f"  FROM {_CHANGED}) WHERE at_most = 1), "
            f"closed AS (SELECT * FROM {self._name} WHERE valid_to IS NOT NULL), "
            f"open AS (SELECT * FROM {self._name} WHERE valid_to IS NULL), "
            "ended AS (SELECT c.id, max(c.valid_to) AS ended_at FROM closed AS c LEFT JOIN open AS o ON c.id = o.id "
            "  WHERE o.valid_from IS NULL GROUP BY c.id), "
            f"matched AS (SELECT {matched} FROM open AS o LEFT JOIN changes AS s ON o.id = s.id UNION ALL "
            f"  SELECT {matched} FROM open AS o RIGHT JOIN changes AS s ON o.id = s.id WHERE o.id IS NULL), "
            f"updated AS (SELECT {updated}, "
            "  coalesce(m.valid_from, greatest(e.ended_at, m.at)) AS valid_from, "
            "  CASE WHEN m.at > m.was_at THEN m.at ELSE m.valid_to END AS valid_to "
            "  FROM matched AS m LEFT JOIN ended AS e ON e.id = m.id), "
            f"fresh AS (SELECT {', '.join(self._columns)}, at AS valid_from, CAST(NULL AS timestamp) AS valid_to "
            "  FROM matched WHERE at > was_at) "
            f"SELECT {', '.join(self._columns)}, valid_from, valid_to, is_current FROM closed UNION ALL "
            "SELECT *, valid_to IS NULL FROM updated UNION ALL SELECT *, true FROM fresh"
        ).write.format("delta").mode("overwrite").save(self._at)


def _each(names: Sequence[str], of: str) -> str:
    return ", ".join(f"{of}.{name}" for name in names)
