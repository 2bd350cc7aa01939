"""Read a foreign document key by key, and report every key that nobody read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NO_EQUIVALENT = "has no equivalent in a declaration"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPart:
    """One mapping of the document. `close` reports the keys that were not read."""

    values: Mapping[str, Any]
    where: str
    warnings: list[str]
    _read: set[str] = field(default_factory=set)
    _inside: list[DocumentPart] = field(default_factory=list)

    def take(self, key: str) -> Any:
        """Return the value, or None."""
        self._read.add(key)
        return self.values.get(key)

    def text(self, key: str) -> str | None:
        """Return the value as text; None for blank text."""
        value = self.take(key)
        return str(value) if value is not None and str(value).strip() else None

    def flag(self, key: str) -> bool:
        """Whether the value is true, yes or on."""
        return str(self.take(key)).lower() in ("true", "yes", "on")

    def part(self, key: str) -> DocumentPart | None:
        """Return the mapping below a key."""
        value = self.take(key)
        return self._child(value, key) if isinstance(value, Mapping) else None

    def parts(self, key: str) -> list[DocumentPart]:
        """Return the mappings of the list below a key."""
        value = self.take(key)
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        return [
            self._child(item, f"{key}[{item.get('name') or item.get('property') or number}]")
            for number, item in enumerate(items)
            if isinstance(item, Mapping)
        ]

    def custom(self, *names: str) -> dict[str, Any]:
        """Return the custom properties with these names, and report the others."""
        custom = {}
        for item in self.parts("customProperties"):
            name = str(item.values.get("property"))
            if name in names:
                custom[name] = item.values.get("value")
                item.ignore()
            else:
                item.drop()
        return custom

    def warn(self, key: str, why: str = NO_EQUIVALENT) -> None:
        """Report a key that is not imported."""
        self._read.add(key)
        self.warnings.append(f"{self.where}{'.' if self.where else ''}{key}: {why}")

    def drop(self, why: str = NO_EQUIVALENT) -> None:
        """Report that the whole mapping is not imported."""
        self.ignore()
        self.warnings.append(f"{self.where}: {why}")

    def ignore(self) -> None:
        """Report nothing more of this mapping or its content."""
        self._read.update(self.values)
        self._inside.clear()

    def close(self) -> None:
        """Report all keys that were not read, here and below."""
        for key, value in self.values.items():
            if key not in self._read and value not in (None, [], {}):
                self.warn(key)
        for part in self._inside:
            part.close()

    def _child(self, values: Mapping[str, Any], key: str) -> DocumentPart:
        where = f"{self.where}.{key}" if self.where else key
        child = DocumentPart(values=values, where=where, warnings=self.warnings)
        self._inside.append(child)
        return child
