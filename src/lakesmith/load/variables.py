"""Variables and secrets: `${name}` is filled in where it is used, `env:` and `file:` stay references."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesmith.declare.secrets import Reference, Secret
from lakesmith.errors import did_you_mean
from lakesmith.load.unfit import Unfit

USE = re.compile(r"\$\$\{|\$\{([^{}\n]*)\}")
_REFERENCE = re.compile(r"(env|file):(.*)", re.DOTALL)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """What `${name}` stands for."""

    folder: str
    """The lake's folder, which relative `file:` references start from."""
    values: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """None is a variable that has no value yet."""
    strict: bool = True
    """Not strict leaves unknown names as they are: for environments that are read but not used."""

    def fill(self, text: str) -> str:
        """The text with the values of its variables. Secrets are refused: this text is shown and stored."""
        if "${" not in text:
            return text
        parts = self._parts(text)
        for part in parts:
            if isinstance(part, Reference):
                raise Unfit(
                    "secret-in-text",
                    f"a variable here holds the secret {part}",
                    "secrets go into spark settings, warehouse and landing; other texts are shown and stored",
                )
        return "".join(str(part) for part in parts)

    def setting(self, text: str) -> str | Secret:
        """Like `fill`, for a place that may hold a secret."""
        parts = self._parts(text) if "${" in text else (self.reference(text),)
        if any(isinstance(part, Reference) for part in parts):
            return Secret(parts)
        return "".join(str(part) for part in parts)

    def reference(self, text: str) -> str | Reference:
        """The reference that a text is, or the text. `file://…` is a URL."""
        match = _REFERENCE.fullmatch(text)
        if match is None or match[2].startswith("//"):
            return text
        name = match[2]
        if match[1] == "env":
            if not _ENVIRONMENT_NAME.fullmatch(name):
                # The text is not repeated: somebody may have written the value here instead of the name.
                raise Unfit(
                    "bad-secret",
                    "what follows env: is not the name of an environment variable",
                    "write env:NAME, with letters, digits and underscores",
                )
            return Reference("env", name)
        if not name or "\x00" in name:
            raise Unfit("bad-secret", "there is no path after file:", "write file:PATH")
        return Reference("file", name, os.path.normpath(os.path.join(self.folder, name)))

    def _parts(self, text: str) -> tuple[str | Reference, ...]:
        parts: list[str | Reference] = []
        end = 0
        for match in USE.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            if match[1] is None:
                parts.append("${")
                continue
            value = self._value(match[1].strip(), match[0])
            parts.extend(value.parts if isinstance(value, Secret) else (value,))
        parts.append(text[end:])
        return tuple(part for part in parts if part != "")

    def _value(self, name: str, written: str) -> str | Secret:
        if name not in self.values:
            if not self.strict:
                return written
            raise Unfit(
                "unknown-variable",
                f"there is no variable '{name[:60]}'",
                did_you_mean(name, self.values, label="variables") + "; a literal ${ is written $${",
            )
        value = self.values[name]
        if value is None:
            raise Unfit(
                "missing-variable",
                f"the variable '{name}' has no value",
                f"give one with --var {name}=…, or in the environment's `variables`",
            )
        return value
