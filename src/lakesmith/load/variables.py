"""Fill in variables `${name}`; secrets `env:` and `file:` stay references."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesmith.declare.secrets import Secret, SecretReference
from lakesmith.errors import did_you_mean
from lakesmith.load.invalid_text import InvalidText

USE = re.compile(r"\$\$\{|\$\{([^{}\n]*)\}")
_REFERENCE = re.compile(r"(env|file):(.*)", re.DOTALL)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The values of variables."""

    folder: str
    """The lake's folder, which relative `file:` references start from."""
    values: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """None is a variable without a value."""
    strict: bool = True
    """When false, unknown names stay unchanged: for environments that are read but not used."""

    def fill(self, text: str) -> str:
        """Return the text with its variables filled in. Reject secrets: this text is shown and stored."""
        if "${" not in text:
            return text
        parts = self._parts(text)
        for part in parts:
            if isinstance(part, SecretReference):
                hint = "use secrets only in spark settings, warehouse and landing; other texts are shown and stored"
                raise InvalidText("secret-in-text", f"a variable in this text is the secret {part}", hint)
        return "".join(str(part) for part in parts)

    def setting(self, text: str) -> str | Secret:
        """Like `fill`, for a value that may be a secret."""
        parts = self._parts(text) if "${" in text else (self.reference(text),)
        if any(isinstance(part, SecretReference) for part in parts):
            return Secret(parts)
        return "".join(str(part) for part in parts)

    def reference(self, text: str) -> str | SecretReference:
        """Return the reference for `env:…` and `file:…`, else the text. `file://…` is a URL."""
        match = _REFERENCE.fullmatch(text)
        if match is None or match[2].startswith("//"):
            return text
        name = match[2]
        if match[1] == "env":
            if not _ENVIRONMENT_NAME.fullmatch(name):
                # The text is not shown: it may be the secret itself instead of its name.
                what = "the text after env: is not the name of an environment variable"
                hint = "write env:NAME, where the name has only letters, digits and underscores"
                raise InvalidText("bad-secret", what, hint)
            return SecretReference("env", name)
        if not name or "\x00" in name:
            raise InvalidText("bad-secret", "the path after file: is missing or invalid", "write file:PATH")
        return SecretReference("file", name, os.path.normpath(os.path.join(self.folder, name)))

    def _parts(self, text: str) -> tuple[str | SecretReference, ...]:
        parts: list[str | SecretReference] = []
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
            hint = did_you_mean(name, self.values, label="variables") + "; write a literal ${ as $${"
            raise InvalidText("unknown-variable", f"there is no variable '{name[:60]}'", hint)
        value = self.values[name]
        if value is None:
            hint = f"set it with --var {name}=…, or in the environment's `variables`"
            raise InvalidText("missing-variable", f"the variable '{name}' is not set", hint)
        return value
