"""Lakes on a cluster of processes that may not see the folders of this one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.cluster import Cluster, kill, standalone
from tests.servers.demo import Place, differences, run_days

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.verify]


def lakesmith(folder: Path, *words: str) -> tuple[int, Any]:
    """Exit code and JSON output of a command."""
    command = [sys.executable, "-m", "lakesmith", "--lake", str(folder), *words, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, json.loads(ended.stdout)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone(tmp_path / "spark") as found:
        yield found


@pytest.mark.timeout(900)
def test_the_shop_is_what_a_local_spark_makes_of_it_although_a_worker_is_killed(
    tmp_path: Path, cluster: Cluster
) -> None:
    near, far = Place().shop(tmp_path / "near"), Place(spark=cluster.settings()).shop(tmp_path / "far")
    run_days(near)
    killer = threading.Timer(25, kill, cluster.workers[:1])
    killer.start()
    run_days(far)
    killer.join()
    assert differences(near.folder, far.folder) == []


@pytest.mark.timeout(900)
def test_a_warehouse_that_executors_do_not_see_is_refused(tmp_path: Path) -> None:
    hidden = tmp_path / "far"
    hidden.mkdir()
    with standalone(tmp_path / "spark", hidden=[hidden]) as cluster:
        shop = Place(spark=cluster.settings()).shop(hidden / "shop").folder
        (shop / "landing" / "customers").mkdir(parents=True)
        (shop / "landing" / "customers" / "1.csv").write_text("customer_id,name\n1,x\n")
        code, report = lakesmith(shop, "run", "--select", "bronze.customers")
        assert (code, [error["code"] for error in report["errors"]]) == (4, ["warehouse-not-shared"])
        assert not (shop / ".lakesmith" / "warehouse" / "bronze").exists()
        code, found = lakesmith(shop, "doctor", "--deep")
    findings = {finding["subject"]: finding for finding in found["findings"]}
    assert (code, findings["spark"]["ok"], findings["executors"]["ok"]) == (4, True, False)
    assert "do not share the warehouse" in findings["executors"]["found"]
    assert f"Python {sys.version.split()[0]}, pyarrow" in findings["workers"]["found"]
