"""Caches the results of SQL analysis, so that a lake with unchanged queries is planned without parsing them.

Parsing two hundred queries takes a quarter of a second of CPU time, most of it the parser's import. The cache is a
mapping in memory: opening a lake may load the entries of the last call, and losing them costs only that time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any


class AnalysisCache:
    """Results by key. A key is a hash of all that its result depends on."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}
        self._used: set[str] = set()
        self.changed = False

    def get(self, kind: str, about: object, compute: Callable[[], Any]) -> Any:
        """Return the cached result, or compute it. A result has to be serializable as JSON."""
        key = hashlib.sha256(json.dumps([kind, about]).encode()).hexdigest()[:24]
        if key not in self._results:
            self._results[key] = compute()
            self.changed = True
        self._used.add(key)
        return self._results[key]

    def load(self, results: Mapping[str, Any]) -> None:
        self._results.update(results)

    def used(self) -> dict[str, Any]:
        """Return the results that this process used. The others belong to queries that have changed since."""
        return {key: self._results[key] for key in sorted(self._used)}


analysis_cache = AnalysisCache()
