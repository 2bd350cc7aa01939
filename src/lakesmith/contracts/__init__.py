"""Versions of contracts: what was published, what has changed since, and whom a change breaks. Pure."""

from lakesmith.contracts.agreement import agreement
from lakesmith.contracts.consumers import Readers
from lakesmith.contracts.differences import Difference, differences
from lakesmith.contracts.judge import Verdict, judge_all, new_records
from lakesmith.contracts.lake import contract_errors, gone_contracts, with_contract
from lakesmith.contracts.problems import given_up, told
from lakesmith.contracts.published import Definition, Published, definition_of, published_from
from lakesmith.contracts.versions import Version
from lakesmith.contracts.views import find_views

__all__ = [
    "Definition",
    "Difference",
    "Published",
    "Readers",
    "Verdict",
    "Version",
    "agreement",
    "contract_errors",
    "definition_of",
    "differences",
    "find_views",
    "given_up",
    "gone_contracts",
    "judge_all",
    "new_records",
    "published_from",
    "told",
    "with_contract",
]
