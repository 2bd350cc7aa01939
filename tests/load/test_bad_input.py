"""Each kind of bad input gets one clear error: the file, the line, a code and a next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lakesmith.errors import LakesmithError

Reject = Callable[..., list[LakesmithError]]

BRONZE = "source: {files: landing/orders/*.json}\n"
HEADER = "/* lakesmith\n{}\n*/\nSELECT 1 AS a\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)

YAML = {
    "an unknown key": (BRONZE + "ownr: me\n", "unknown-key", 2, "did you mean 'owner'?"),
    "an unknown key in a block": (
        "source: {file: a.json, files: b.json}\n",
        "unknown-key",
        1,
        "did you mean 'files'?",
    ),
    "a merge key": (BRONZE + "<<: {owner: me}\n", "unknown-key", 2, "defaults"),
    "a duplicate key": (BRONZE + "owner: a\nowner: b\n", "duplicate-key", 3, "remove one"),
    "a duplicate column": (BRONZE + "columns:\n  a: int\n  a: string\n", "duplicate-key", 4, "remove one"),
    "columns that differ in case only": (
        BRONZE + "columns:\n  Id: int\n  id: int\n",
        "duplicate-key",
        4,
        "remove one",
    ),
    "a wrong type": (BRONZE + "columns: [a, b]\n", "wrong-type", 2, "columns: {name: …}"),
    "a number for a block": (BRONZE + "load: 5\n", "needs-quotes", 2, 'write it in quotes: "5"'),
    "a list for text": (BRONZE + "owner: [a]\n", "wrong-type", 2, "text"),
    "text for a block": ("source: landing/*.json\n", "wrong-type", 1, "source: {files: …}"),
    "no as text": (BRONZE + "owner: no\n", "needs-quotes", 2, 'write it in quotes: "no"'),
    "on as text": (BRONZE + "owner: on\n", "needs-quotes", 2, '"on"'),
    "1.10 as text": (BRONZE + "owner: 1.10\n", "needs-quotes", 2, '"1.10"'),
    "a date as text": (BRONZE + "owner: 2026-01-01\n", "needs-quotes", 2, '"2026-01-01"'),
    "0o17 as text": (BRONZE + "owner: 0o17\n", "needs-quotes", 2, '"0o17"'),
    "1_000 as text": (BRONZE + "owner: 1_000\n", "needs-quotes", 2, '"1_000"'),
    "12:30:45 as text": (BRONZE + "owner: 12:30:45\n", "needs-quotes", 2, '"12:30:45"'),
    "null as text": (BRONZE + "owner: null\n", "wrong-type", 2, "write owner:"),
    "a tilde as text": (BRONZE + "owner: ~\n", "wrong-type", 2, "write owner:"),
    "nothing as text": (BRONZE + "owner:\n", "wrong-type", 2, "write owner:"),
    "a column called no": (BRONZE + "columns:\n  no: int\n", "needs-quotes", 3, '"no"'),
    "yes as a boolean": (BRONZE + "enabled: yes\n", "wrong-type", 2, "enabled: true"),
    "a quoted boolean": (BRONZE + 'enabled: "true"\n', "wrong-type", 2, "without quotes"),
    "empty text": (BRONZE + 'owner: ""\n', "empty-text", 2, "remove the key"),
    "an empty list": (BRONZE + "tags: []\n", "wrong-type", 2, "remove the key"),
    "a tab": ("source:\n\tfiles: a.json\n", "yaml-syntax", 2, "tab"),
    "an open quote": ('owner: "me\n', "yaml-syntax", 2, "not closed"),
    "a colon in text": ("description: note: this\n", "yaml-syntax", 1, "in quotes"),
    "an at sign": ("owner: @sales\n", "yaml-syntax", 1, "in quotes"),
    "uneven indentation": ("source:\n    files: a.json\n  format: json\n", "yaml-syntax", 3, "indentation"),
    "a control character": ("owner: me\ntags: \x07\n", "yaml-syntax", 2, "remove the character"),
    "an empty file": ("", "empty-file", 1, "source:"),
    "a file of comments": ("# nothing yet\n", "empty-file", 1, "source:"),
    "two documents": (BRONZE + "---\nowner: me\n", "several-documents", 2, "---"),
    "a file that is one word": ("orders\n", "wrong-type", 1, "source"),
    "a file that is a list": ("- a\n- b\n", "wrong-type", 1, "source"),
    "an alias bomb": (BOMB, "alias-bomb", 3, "write the values out"),
    "an alias in itself": ("source: &x\n  files: *x\n", "yaml-alias", 2, "write the value out"),
    "an alias without anchor": ("source: *x\n", "yaml-alias", 1, "quotes"),
    "deep nesting": ("source: " + "[" * 40 + "]" * 40 + "\n", "too-deep", 1, "levels"),
    "a tag that makes objects": (
        "owner: !!python/object/apply:os.system [ls]\n",
        "yaml-tag",
        1,
        "remove the tag",
    ),
    "a list as a key": ("? [a, b]\n: c\n", "yaml-key", 1, "quotes"),
    "braces where quotes were meant": ("source: {files: {day}: x}\n", "yaml-syntax", 1, "missing quote"),
    "a source of nothing": ("source: {format: json}\n", "one-of", 1, "files, kafka, jdbc, table, adopt"),
    "a source of two kinds": ("source: {files: a/*.json, kafka: orders}\n", "one-of", 1, "one of"),
    "a key of another source": ("source: {files: a/*.json, values: avro}\n", "key-of-other-source", 1, "keys of files"),
    "a topic of nowhere": ("source: {kafka: orders}\n", "missing-connection", 1, "connection: NAME"),
    "partitions by nothing": (
        "source: {jdbc: orders, connection: shop, partitions: 4}\n",
        "missing-partition-by",
        1,
        "partition_by: id",
    ),
    "an overlap with nothing": (
        "source: {jdbc: orders, connection: shop, overlap: 1h}\n",
        "missing-watermark",
        1,
        "watermark: updated_at",
    ),
    "batches of no file": ("source: {files: a/*.json, max_files: 0}\n", "wrong-type", 1, "max_files: 4"),
    "an order that there is not": ("source: {files: a/*.json, listing: sorted}\n", "unknown-word", 1, "ordered"),
    "an order of records": (
        "source: {kafka: orders, connection: main, listing: ordered}\n",
        "key-of-other-source",
        1,
        "keys of kafka",
    ),
    "an encoding that there is not": ("source: {files: a/*.csv, encoding: utf-9}\n", "unknown-encoding", 1, "latin-1"),
    "a zone that there is not": ("source: {files: a/*.csv, timezone: Oslo}\n", "unknown-timezone", 1, "Europe/Oslo"),
    "an archive that would be read again": (
        'source: {files: "a/**/*.json", archive: done}\n',
        "archive-in-landing",
        1,
        "archive: _done",
    ),
    "an envelope in Avro files": (
        "source: {files: a/*.avro, envelope: debezium}\n",
        "unknown-format",
        1,
        "format: json",
    ),
    "XML without a row": ("source: {files: a/*.xml}\n", "missing-row-tag", 1, "row_tag: order"),
    "the format of a table for files": ("source: {files: a/*, format: delta}\n", "unknown-format", 1, "table:"),
    "the format of files for a table": ("source: {table: /lake/a, format: csv}\n", "unknown-format", 1, "files:"),
    "no source": ("owner: me\n", "missing-source", 1, "source: {files: landing/orders/*.json}"),
    "an unknown ending": ("source: {files: landing/*.xls}\n", "unknown-format", 1, "one of json, csv"),
    "an unknown format": ("source: {files: a/*, format: jsn}\n", "unknown-word", 1, "did you mean 'json'?"),
    "a delimiter for JSON": (
        BRONZE[:-2] + ', delimiter: ";"}\n',
        "unknown-format",
        1,
        "format: csv",
    ),
    "a delimiter of two": (
        'source: {files: "a.csv", delimiter: "||"}\n',
        "bad-delimiter",
        1,
        "one character",
    ),
    "a source that leaves its root": (
        'source: {files: "../../etc/*.json"}\n',
        "path-escapes",
        1,
        "absolute path",
    ),
    "a URL that leaves its root": (
        'source: {files: "s3a://b/../c/*.json"}\n',
        "path-escapes",
        1,
        "without '..'",
    ),
    "a password in a URL": (
        'source: {files: "sftp://me:hush@h/*.json"}\n',
        "credentials-in-url",
        1,
        "env:NAME",
    ),
    "a load that bronze has not": (BRONZE + "load: replace\n", "bronze-append-only", 2, "silver"),
    "a contract that is not": (BRONZE + "contract: strickt\n", "unknown-word", 2, "did you mean 'strict'?"),
    "a duration that is none": (BRONZE + "freshness: soon\n", "bad-duration", 2, "30m"),
    "a bare number as a duration": (BRONZE + "freshness: 3600\n", "needs-quotes", 2, "quotes"),
    "a type that is none": (BRONZE + "columns:\n  a: integre\n", "bad-type", 3, "did you mean 'integer'?"),
    "a type of another database": (BRONZE + "columns: {a: varchar(20)}\n", "bad-type", 2, "string"),
    "a type that is not closed": (BRONZE + "columns: {a: 'array<int'}\n", "bad-type", 2, "struct<a: int>"),
    "a zone of a column that there is not": (
        BRONZE + "columns:\n  a: {type: timestamp, timezone: Mars/Olympus}\n",
        "unknown-timezone",
        3,
        "Europe/Oslo",
    ),
    "a currency that is neither code nor column": (
        BRONZE + "columns:\n  b: int\n  a: {type: int, currency: euro}\n",
        "bad-currency",
        4,
        "such as EUR, or declare euro",
    ),
    "a currency that is no word": (
        BRONZE + 'columns: {a: {type: int, currency: "€"}}\n',
        "bad-currency",
        2,
        "such as EUR",
    ),
    "an empty list of values": (
        BRONZE + "checks:\n  a: {in: {column: b, values: []}}\n",
        "wrong-type",
        3,
        "write at least one: [a, b]",
    ),
    "a decimal that is too long": (
        BRONZE + "columns: {a: 'decimal(39,2)'}\n",
        "bad-type",
        2,
        "decimal(12,2)",
    ),
    "a column with a quote": (BRONZE + 'columns: {"a\'b": int}\n', "bad-identifier", 2, "letters, digits"),
    "a column with a backtick": (BRONZE + 'columns: {"a`b": int}\n', "bad-identifier", 2, "letters, digits"),
    "a column with a dot": (BRONZE + "columns: {a.b: int}\n", "bad-identifier", 2, "letters, digits"),
    "a column with a space": (BRONZE + "columns: {a b: int}\n", "bad-identifier", 2, "letters, digits"),
    "a column with an emoji": (BRONZE + "columns: {a😀: int}\n", "bad-identifier", 2, "letters, digits"),
    "a column with SQL": (
        BRONZE + 'columns: {"a; DROP TABLE b": int}\n',
        "bad-identifier",
        2,
        "letters, digits",
    ),
    "a column of the change feed": (
        BRONZE + "columns: {_change_type: string}\n",
        "bad-identifier",
        2,
        "change data feed",
    ),
    "a check with a space": (
        BRONZE + 'checks: {"a b": {where: a > 0}}\n',
        "bad-identifier",
        2,
        "letters, digits",
    ),
    "a tag with a comma": (BRONZE + 'tags: ["a,b"]\n', "bad-identifier", 2, "tag"),
    "a check on nothing": (BRONZE + "checks:\n  a: {on_fail: warn}\n", "one-of", 3, "where"),
    "a check on rows and batch": (BRONZE + "checks:\n  a: {sql: a, expect: b}\n", "one-of", 3, "expect"),
    "a batch in quarantine": (
        BRONZE + "checks:\n  a:\n    expect: count(*) > 0\n    on_fail: quarantine\n",
        "bad-severity",
        5,
        "on_fail: fail",
    ),
    "a severity that is none": (
        BRONZE + "checks: {a: {where: b, on_fail: quarantene}}\n",
        "unknown-word",
        2,
        "did you mean 'quarantine'?",
    ),
    "a variable that is not there": (BRONZE + "owner: ${team}\n", "unknown-variable", 2, "$${"),
}


@pytest.mark.parametrize(("text", "code", "line", "hint"), YAML.values(), ids=YAML)
def test_bad_yaml_is_reported_with_line_and_hint(reject: Reject, text: str, code: str, line: int, hint: str) -> None:
    (error,) = reject({"bronze/orders.yml": text})
    assert (error.code, str(error.at)) == (code, f"bronze/orders.yml:{line}"), str(error)
    assert hint in (error.hint or "")


SQL = {
    "an unknown key": (HEADER.format("ownr: me"), "unknown-key", 2, "did you mean 'owner'?"),
    "a header on one line": (
        "/* lakesmith ownr: me */ SELECT 1\n",
        "unknown-key",
        1,
        "did you mean 'owner'?",
    ),
    "a header after a comment": (
        "-- ours\n\n/* lakesmith\nowner: a\nownr: b\n*/\nSELECT 1",
        "unknown-key",
        5,
        "owner",
    ),
    "bad YAML in the header": (HEADER.format("owner: me\ntags: [a"), "yaml-syntax", 4, "missing"),
    "an open header": ("/* lakesmith\nowner: me\nSELECT 1\n", "sql-header", 1, "*/"),
    "a second header": (
        HEADER.format("owner: me") + "/* lakesmith\nowner: you */\n",
        "sql-header",
        5,
        "at the top",
    ),
    "an empty file": ("", "sql-empty", 1, "SELECT"),
    "only a header": ("/* lakesmith\nowner: me\n*/\n", "sql-empty", 3, "SELECT"),
    "only a comment": ("-- SELECT 1\n", "sql-empty", 1, "SELECT"),
    "two statements": ("SELECT 1;\nSELECT 2\n", "sql-several", 2, "WITH"),
    "an insert": (
        HEADER.format("owner: me").replace("SELECT 1 AS a", "INSERT INTO t\nVALUES (1)"),
        "sql-not-select",
        4,
        "load",
    ),
    "a drop": ("drop table silver.orders\n", "sql-not-select", 1, "load"),
    "an open quote": ("SELECT\n  'a\n", "sql-syntax", 2, "close it"),
    "an open comment": ("SELECT 1\n/* why\n", "sql-syntax", 2, "close it"),
    "an unknown variable": ("SELECT 1\nWHERE a = ${dya}\n", "unknown-variable", 2, "there are no variables"),
    "a source": (HEADER.format("source: {files: a.json}"), "source-outside-bronze", 2, "bronze"),
    "merge without keys": (
        HEADER.format("load: merge"),
        "wrong-type",
        2,
        "load: {merge: {key: …}}  (also: order_by,",
    ),
    "merge without a key": (
        HEADER.format("load: {merge: {order_by: a}}"),
        "missing-key",
        2,
        "the columns that identify a row",
    ),
    "append with nothing in it": (HEADER.format("load: {append: {}}"), "missing-key", 2, "dedup"),
    "a window without a time": (
        HEADER.format("load:\n  append:\n    dedup: a\n    within: 7d"),
        "missing-key",
        5,
        "add by: …, or remove within",
    ),
    "a delete without an order": (
        HEADER.format("load:\n  merge:\n    key: a\n    delete: b = 1"),
        "missing-key",
        5,
        "add order_by: …",
    ),
    "a subset without an order": (HEADER.format("load: {merge: {key: a, update: b}}"), "missing-key", 2, "order_by"),
    "a soft delete without a delete": (
        HEADER.format("load: {merge: {key: a, order_by: b, soft_delete: gone}}"),
        "missing-key",
        2,
        "add delete: …, or remove soft_delete",
    ),
    "a subset with soft deletes": (
        HEADER.format("load: {merge: {key: a, order_by: b, delete: c, soft_delete: gone, update: d}}"),
        "one-of",
        2,
        "remove update or soft_delete",
    ),
    "a history without a time": (HEADER.format("load: {scd2: {key: a}}"), "missing-key", 2, "order_by"),
    "a history by no column": (HEADER.format("load: {scd2: {key: a, order_by: []}}"), "wrong-type", 2, "at least one"),
    "tracked and ignored": (
        HEADER.format("load:\n  scd2:\n    key: a\n    order_by: b\n    track: c\n    ignore: d"),
        "one-of",
        7,
        "remove ignore or track",
    ),
    "a stream without an order": (HEADER.format("load: {changes: {key: a, op: b}}"), "missing-key", 2, "order_by"),
    "a stream without an op": (HEADER.format("load: {changes: {key: a, order_by: b}}"), "missing-key", 2, "op"),
    "the earlier value of what is no key": (
        HEADER.format("load:\n  changes:\n    key: id\n    order_by: b\n    op: c\n    previous_key: {idd: old_id}"),
        "not-a-key",
        7,
        "did you mean 'id'?",
    ),
    "extracts without a time": (HEADER.format("load: {snapshot: {key: a}}"), "missing-key", 2, "taken"),
    "extracts into nothing": (
        HEADER.format("load: {snapshot: {key: a, taken: b, into: scd}}"),
        "unknown-word",
        2,
        "did you mean 'scd2'?",
    ),
    "extracts that track without a history": (
        HEADER.format("load: {snapshot: {key: a, taken: b, track: c}}"),
        "missing-key",
        2,
        "add into: scd2",
    ),
    "extracts that track and ignore": (
        HEADER.format("load: {snapshot: {key: a, taken: b, into: scd2, track: c, ignore: d}}"),
        "one-of",
        2,
        "remove ignore or track",
    ),
    **{
        f"a shrink of {written}": (
            HEADER.format(f"load: {{snapshot: {{key: a, taken: b, max_shrink: {written}}}}}"),
            "wrong-type",
            2,
            "max_shrink: 20%",
        )
        for written in ("1", "0", "100%", "120%", "20", "much", "-0.1", "'%'", "'0.2'", "[0.2]")
    },
    "merge by SQL": (
        HEADER.format('load: {merge: {key: "a) or (1=1", order_by: b}}'),
        "bad-identifier",
        2,
        "letters",
    ),
    "two loads": (
        HEADER.format("load: {merge: {key: a, order_by: b}, replace_partitions: c}"),
        "one-of",
        2,
        "one of",
    ),
    "an unknown load": (HEADER.format("load: upsert"), "unknown-word", 2, "values of load: append, changes, merge"),
    "an unknown load block": (
        HEADER.format("load: {merg: {key: a}}"),
        "unknown-key",
        2,
        "did you mean 'merge'?",
    ),
    "a partition of nowhere": (
        HEADER.format("load: {replace_partitions: {by: day, same_as: orders.day}}"),
        "bad-identifier",
        2,
        "silver.orders.day",
    ),
}


@pytest.mark.parametrize(("text", "code", "line", "hint"), SQL.values(), ids=SQL)
def test_bad_sql_is_reported_with_line_and_hint(reject: Reject, text: str, code: str, line: int, hint: str) -> None:
    (error,) = reject({"silver/orders.sql": text})
    assert (error.code, str(error.at)) == (code, f"silver/orders.sql:{line}"), str(error)
    assert hint in (error.hint or "")


ENVIRONMENTS = "name: shop\nenvironments:\n"
LAKE = {
    "an unknown key": ("name: shop\nenviroments: {}\n", "unknown-key", 2, "did you mean 'environments'?"),
    "no name": ("variables: {a: b}\n", "missing-key", 1, "name"),
    "a name with a space": ("name: my shop\n", "bad-identifier", 1, "for example 'my_shop'"),
    "an empty file": ("", "empty-file", 1, "name: shop"),
    "an environment with a dash": (
        ENVIRONMENTS + "  a-b: {warehouse: x}\n",
        "bad-identifier",
        3,
        "for example 'a_b'",
    ),
    "a umask that takes permissions from the user": (
        ENVIRONMENTS + '  dev: {umask: "777"}\n',
        "bad-umask",
        3,
        '"027"',
    ),
    "a umask without quotes": (ENVIRONMENTS + "  dev: {umask: 027}\n", "needs-quotes", 3, "quotes"),
    "an unknown key in an environment": (
        ENVIRONMENTS + "  dev: {warehous: x}\n",
        "unknown-key",
        3,
        "'warehouse'",
    ),
    "a default that is not there": (
        ENVIRONMENTS + "  dev: {}\ndefault_environment: dve\n",
        "unknown-environment",
        4,
        "did you mean 'dev'?",
    ),
    "no default among several": (
        ENVIRONMENTS + "  a: {}\n  b: {}\n",
        "no-environment",
        2,
        "default_environment: a",
    ),
    "a warehouse that can only be a landing zone": (
        ENVIRONMENTS + "  dev: {warehouse: 'sftp://lake/warehouse'}\n",
        "unknown-storage",
        3,
        "use a folder, or one of s3://, s3a://, az://, abfs://, abfss://",
    ),
    "a warehouse that leaves its root": (
        ENVIRONMENTS + "  dev: {warehouse: ../x}\n",
        "path-escapes",
        3,
        "absolute",
    ),
    "a warehouse that leaves it on a detour": (
        ENVIRONMENTS + "  dev: {warehouse: a/../../x}\n",
        "path-escapes",
        3,
        "absolute",
    ),
    "a landing that leaves its root": (
        ENVIRONMENTS + "  dev: {landing: ../x}\n",
        "path-escapes",
        3,
        "absolute",
    ),
    "no jobs": (ENVIRONMENTS + "  dev: {jobs: 0}\n", "wrong-type", 3, "jobs: 4"),
    "jobs in quotes": (ENVIRONMENTS + '  dev: {jobs: "4"}\n', "wrong-type", 3, "without quotes"),
    "a variable with a dash": ("name: shop\nvariables: {a-b: c}\n", "bad-identifier", 2, "variable"),
    "a variable of an environment alone": (
        "name: shop\nvariables: {day: x}\nenvironments:\n  dev: {variables: {dya: y}}\n",
        "unknown-variable",
        4,
        "did you mean 'day'?",
    ),
    "a variable without a value": (
        "name: shop\nvariables: {place: }\nenvironments:\n  dev: {warehouse: 'x/${place}'}\n",
        "missing-variable",
        4,
        "--var place=",
    ),
    "a missing secret": (
        ENVIRONMENTS + "  dev: {spark: {a.b: 'env:NOT_SET_HERE'}}\n",
        "missing-secret",
        3,
        "export NOT_SET_HERE",
    ),
    "a missing file": (
        ENVIRONMENTS + "  dev: {spark: {a.b: 'file:not/here'}}\n",
        "missing-secret",
        3,
        "lake's folder",
    ),
    "a secret warehouse that is missing": (
        ENVIRONMENTS + "  dev: {warehouse: 'env:NOT_SET_HERE'}\n",
        "missing-secret",
        3,
        "NOT_SET_HERE",
    ),
    "a name that no variable has": (
        ENVIRONMENTS + "  dev: {spark: {a.b: 'env:a b'}}\n",
        "bad-secret",
        3,
        "env:NAME",
    ),
    "defaults of no layer": ("name: shop\ndefaults: {sliver: {owner: a}}\n", "unknown-word", 2, "'silver'"),
    "an unknown default": (
        "name: shop\ndefaults: {all: {load: append}}\n",
        "unknown-key",
        2,
        "keys: contract",
    ),
}


@pytest.mark.parametrize(("text", "code", "line", "hint"), LAKE.values(), ids=LAKE)
def test_a_bad_lakesmith_yml_is_reported_with_line_and_hint(
    reject: Reject, text: str, code: str, line: int, hint: str
) -> None:
    (error,) = reject({"lakesmith.yml": text})
    assert (error.code, str(error.at)) == (code, f"lakesmith.yml:{line}"), str(error)
    assert hint in (error.hint or "")


FOLDERS: Mapping[str, tuple[dict[str, str | bytes], str, str, str]] = {
    "a table called in capitals": (
        {"bronze/Orders.yml": BRONZE},
        "bad-identifier",
        "bronze/Orders.yml:1",
        "rename",
    ),
    "a table with a dot": ({"bronze/a.b.yml": BRONZE}, "bad-identifier", "bronze/a.b.yml:1", "rename"),
    "a table with a space": ({"silver/a b.sql": "SELECT 1"}, "bad-identifier", "silver/a b.sql:1", "rename"),
    "a table with an emoji": ({"silver/a😀.sql": "SELECT 1"}, "bad-identifier", "silver/a😀.sql:1", "rename"),
    "an unknown ending": ({"bronze/orders.json": "{}"}, "unknown-file", "bronze/orders.json:1", ".yml"),
    "a folder in a layer": (
        {"bronze/sales/orders.yml": BRONZE},
        "nested-folder",
        "bronze/sales:1",
        "bronze/",
    ),
    "a misspelt layer": (
        {"sliver/orders.sql": "SELECT 1"},
        "unknown-folder",
        "sliver:1",
        "did you mean 'silver'?",
    ),
    "a layer in capitals": (
        {"Bronze/orders.yml": BRONZE},
        "unknown-folder",
        "Bronze:1",
        "did you mean 'bronze'?",
    ),
    "access rules": (
        {"access.yml": "roles: {}\n"},
        "access-unsupported",
        "access.yml:1",
        "storage permissions",
    ),
    "YAML without a query": (
        {"gold/sales.yml": "owner: me\n"},
        "no-query",
        "gold/sales.yml:1",
        "gold/sales.sql or .py",
    ),
    "a query in bronze": (
        {"bronze/orders.sql": "\nSELECT 1"},
        "query-in-bronze",
        "bronze/orders.sql:2",
        "silver/",
    ),
    "two files of one name": (
        {"bronze/orders.yaml": BRONZE, "bronze/orders.yml": BRONZE},
        "duplicate-table",
        "bronze/orders.yml:1",
        "rename",
    ),
    "text that is not UTF-8": (
        {"bronze/orders.yml": b"owner: a\ndescription: caf\xe9\n"},
        "not-utf8",
        "bronze/orders.yml:2",
        "UTF-8",
    ),
    "a large file": (
        {"bronze/orders.yml": "# " + "x" * 1_000_000},
        "too-large",
        "bronze/orders.yml:1",
        "landing",
    ),
}


@pytest.mark.parametrize(("files", "code", "at", "hint"), FOLDERS.values(), ids=FOLDERS)
def test_an_unexpected_file_is_reported(
    reject: Reject, files: dict[str, str | bytes], code: str, at: str, hint: str
) -> None:
    (error,) = reject(files)
    assert (error.code, str(error.at)) == (code, at), str(error)
    assert hint in (error.hint or "")


def test_a_dangling_link_is_reported(reject: Reject, tmp_path: Path) -> None:
    (tmp_path / "bronze").mkdir()
    (tmp_path / "bronze" / "orders.yml").symlink_to(tmp_path / "nowhere")
    (error,) = reject({})
    assert (error.code, str(error.at)) == ("unreadable-file", "bronze/orders.yml:1")
    assert "link" in (error.hint or "")
