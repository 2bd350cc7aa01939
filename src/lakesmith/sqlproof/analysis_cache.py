"""What was read out of SQL before, so that a lake whose queries have not changed is planned without parsing them.

Reading two hundred queries takes a quarter of a second of CPU time, most of it the parser's import. This is only a
mapping: whoever opens a lake may fill it with what the last call kept, and losing it costs that time and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any


class AnalysisCache:
    """Answers by question, each question a hash of all that its answer depends on."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}
        self._variants: set[str] = set()
        self.grown = False

    def answer(self, kind: str, about: object, read: Callable[[], Any]) -> Any:
        """The answer that is known, or what `read` finds; it has to be something that JSON can hold."""
        question = hashlib.sha256(json.dumps([kind, about]).encode()).hexdigest()[:24]
        if question not in self._answers:
            self._answers[question] = read()
            self.grown = True
        self._variants.add(question)
        return self._answers[question]

    def fill(self, answers: Mapping[str, Any]) -> None:
        self._answers.update(answers)

    def kept(self) -> dict[str, Any]:
        """The answers that were asked for in this process: the others are of queries that have changed since."""
        return {question: self._answers[question] for question in sorted(self._variants)}


analysis_cache = AnalysisCache()
