"""A foreign document read key by key, so that what nobody asked for can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NO_PLACE = "has no place in a declaration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One mapping of the document. What is not taken out of it is told when it is closed."""

    values: Mapping[str, Any]
    where: str
    warnings: list[str]
    _taken: set[str] = field(default_factory=set)
    _inside: list[Part] = field(default_factory=list)

    def take(self, key: str) -> Any:
        """The value, None when there is none."""
        self._taken.add(key)
        return self.values.get(key)

    def text(self, key: str) -> str | None:
        """The value as text; blank text is none."""
        value = self.take(key)
        return str(value) if value is not None and str(value).strip() else None

    def flag(self, key: str) -> bool:
        """Whether the value is true, in one of the words for it."""
        return str(self.take(key)).lower() in ("true", "yes", "on")

    def part(self, key: str) -> Part | None:
        """The mapping below a key."""
        value = self.take(key)
        return self._made(value, key) if isinstance(value, Mapping) else None

    def parts(self, key: str) -> list[Part]:
        """The mappings of the list below a key, named by what they are called."""
        value = self.take(key)
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        return [
            self._made(item, f"{key}[{item.get('name') or item.get('property') or number}]")
            for number, item in enumerate(items)
            if isinstance(item, Mapping)
        ]

    def custom(self, *names: str) -> dict[str, Any]:
        """The custom properties of these names; the others are told."""
        found = {}
        for item in self.parts("customProperties"):
            name = str(item.values.get("property"))
            if name in names:
                found[name] = item.values.get("value")
                item.settle()
            else:
                item.drop()
        return found

    def warn(self, key: str, why: str = NO_PLACE) -> None:
        """Tell of one key that is not brought over."""
        self._taken.add(key)
        self.warnings.append(f"{self.where}{'.' if self.where else ''}{key}: {why}")

    def drop(self, why: str = NO_PLACE) -> None:
        """Tell that the whole of it is not brought over."""
        self.settle()
        self.warnings.append(f"{self.where}: {why}")

    def settle(self) -> None:
        """Nothing more has to be told of it, or of what is below."""
        self._taken.update(self.values)
        self._inside.clear()

    def close(self) -> None:
        """Tell of all that was not taken, here and below."""
        for key, value in self.values.items():
            if key not in self._taken and value not in (None, [], {}):
                self.warn(key)
        for part in self._inside:
            part.close()

    def _made(self, values: Mapping[str, Any], key: str) -> Part:
        where = f"{self.where}.{key}" if self.where else key
        made = Part(values=values, where=where, warnings=self.warnings)
        self._inside.append(made)
        return made
