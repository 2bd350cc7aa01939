"""Data that does not match the contract: each kind of drift with each reaction."""

from __future__ import annotations

import pytest
from tests.run.lakes import Written

pytestmark = pytest.mark.spark

FINE: dict[str, object] = {"id": 1, "amount": 1}
ROWS: dict[str, dict[str, object]] = {
    "new_column": {"id": 2, "amount": 2, "extra": "x"},
    "type": {"id": 2, "amount": "many"},
    "nullability": {"id": None, "amount": 2},
}


def bronze(kind: str, reaction: str) -> str:
    return (
        f"source: {{files: landing/orders/*.json}}\ncontract: {{drift: {{{kind}: {reaction}}}}}\n"
        "columns:\n  id: {type: bigint, required: true}\n  amount: bigint\n"
    )


EXPECTED = {
    ("new_column", "evolve"): (2, 0, 0),
    ("new_column", "quarantine"): (1, 1, 0),
    ("new_column", "discard"): (2, 0, 0),
    ("type", "evolve"): (2, 0, 0),
    ("type", "quarantine"): (1, 1, 0),
    ("type", "discard"): (1, 0, 1),
    ("nullability", "evolve"): (2, 0, 0),
    ("nullability", "quarantine"): (1, 1, 0),
    ("nullability", "discard"): (1, 0, 1),
}


@pytest.mark.parametrize("kind", ROWS)
def test_bronze_reacts_to_drift_as_the_contract_declares(written: Written, kind: str) -> None:
    """One table for each reaction, all in one run."""
    reactions = ("evolve", "freeze", "quarantine", "discard")
    for reaction in reactions:
        written.declare({f"bronze/{reaction}.yml": bronze(kind, reaction).replace("orders", reaction)})
        written.land(f"{reaction}/1.json", FINE)
    written.run()
    for reaction in reactions:
        written.land(f"{reaction}/2.json", {"id": 3, "amount": 3}, ROWS[kind])
    steps = written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code in ("contract-broken", "gate-failed"), error.table) == (True, "bronze.freeze")
    assert written.version("bronze.freeze") == 0
    for reaction in ("evolve", "quarantine", "discard"):
        step = steps[f"bronze.{reaction}"]
        found = (step.rows_written, step.rows_quarantined, step.rows_discarded)
        assert found == EXPECTED[kind, reaction], reaction
    if kind == "new_column":
        assert written.rows("SELECT extra FROM bronze.evolve WHERE id = 2") == [("x",)]
        assert written.rows("SELECT _rescued FROM bronze.discard WHERE id = 2") == [(None,)]
        (check,) = [c for c in written.reports[-1].checks if c.table == "bronze.discard" and c.check == "new_column"]
        assert check.failed_rows == 1
    if kind == "type":
        assert written.rows("SELECT _rescued FROM bronze.evolve WHERE id = 2") == [('{"amount": "many"}',)]


def test_a_column_that_a_batch_lacks_is_missing(written: Written) -> None:
    for reaction in ("evolve", "freeze", "quarantine", "discard"):
        # There are no other checks, so readers would write the rows themselves.
        text = bronze("missing_column", reaction).replace("orders", reaction).replace(", required: true", "")
        written.declare({f"bronze/{reaction}.yml": text})
        written.land(f"{reaction}/1.json", {"id": 1}, {"id": 2})
    steps = written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code, error.table) == ("gate-failed", "bronze.freeze")
    assert "amount.missing: 2 rows failed: the batch does not have amount" in error.what
    found = {name: (s.rows_written, s.rows_quarantined, s.rows_discarded) for name, s in steps.items()}
    assert found["bronze.evolve"] == (2, 0, 0)
    assert found["bronze.quarantine"] == (0, 2, 0)
    assert found["bronze.discard"] == (0, 0, 2)
    for reaction in ("evolve", "quarantine", "discard"):
        written.land(f"{reaction}/2.json", FINE, {"id": 2})
        assert written.run(f"bronze.{reaction}")[f"bronze.{reaction}"].rows_written == 2, "a row has each column"


def test_silver_reacts_to_drift_as_the_contract_declares(written: Written) -> None:
    head = "/* lakesmith\ncontract: {{drift: {{{drift}}}}}\ncolumns: {{{columns}}}\n*/\n"
    query = "SELECT id, amount FROM bronze.orders\n"
    tables = {
        "gone": ("missing_column: evolve", "id: bigint, amount: string, more: int"),
        "gone_aside": ("missing_column: quarantine", "id: bigint, amount: string, more: int"),
        "cut": ("new_column: discard", "id: bigint"),
        "aside": ("new_column: quarantine", "id: bigint"),
        "emptied": ("type: evolve", "id: bigint, amount: int"),
        "dropped": ("type: discard", "id: bigint, amount: int"),
        "stopped": ("type: freeze", "id: bigint, amount: int"),
    }
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncolumns: {amount: string}\n"})
    for name, (drift, columns) in tables.items():
        written.declare({f"silver/{name}.sql": head.format(drift=drift, columns=columns) + query})
    written.land("orders/1.json", {"id": 1, "amount": "1"}, {"id": 2, "amount": "many"})
    steps = written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code, error.table) == ("gate-failed", "silver.stopped")
    found = {name: (s.rows_written, s.rows_quarantined, s.rows_discarded) for name, s in steps.items()}
    assert found["silver.gone"] == (2, 0, 0)
    assert found["silver.gone_aside"] == (0, 2, 0)
    assert found["silver.cut"] == (2, 0, 0)
    assert found["silver.aside"] == (0, 2, 0)
    assert found["silver.emptied"] == (2, 0, 0)
    assert found["silver.dropped"] == (1, 0, 1)
    assert written.rows("SELECT * FROM silver.cut ORDER BY id") == [(1,), (2,)]
    assert written.rows("SELECT amount FROM silver.emptied ORDER BY id") == [(1,), (None,)]
    assert written.rows("SELECT id, more FROM silver.gone ORDER BY id") == [(1, None), (2, None)]
