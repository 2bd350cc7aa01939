"""Versions of contracts: what a run published, what has changed since, and which readers a change breaks. Pure."""

from lakesmith.contracts.compare import ContractComparison, compare_all, new_records
from lakesmith.contracts.consumers import Consumers
from lakesmith.contracts.differences import Difference, differences
from lakesmith.contracts.lake import contract_errors, removed_contracts, tables_with_contract
from lakesmith.contracts.problems import diff_report, dropped_versions
from lakesmith.contracts.published import Definition, PublishedContract, definition_of, published_from
from lakesmith.contracts.stored_table import compare_stored_table
from lakesmith.contracts.versions import ContractVersion
from lakesmith.contracts.views import earlier_versions

__all__ = [
    "Consumers",
    "ContractComparison",
    "ContractVersion",
    "Definition",
    "Difference",
    "PublishedContract",
    "compare_all",
    "compare_stored_table",
    "contract_errors",
    "definition_of",
    "diff_report",
    "differences",
    "dropped_versions",
    "earlier_versions",
    "new_records",
    "published_from",
    "removed_contracts",
    "tables_with_contract",
]
