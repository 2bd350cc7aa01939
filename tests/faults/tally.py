"""Counts and prints the results of chaos."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """The counts so far."""

    kills: int = 0
    episodes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    """How often the oracle found a lake correct, or each promise broken."""
    by_command: Counter[str] = field(default_factory=Counter)
    by_layer: Counter[str] = field(default_factory=Counter)
    by_place: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    """Commits by writer, kind and moment."""
    missed: int = 0
    """Acts in which the process ended before the kill."""
    broken: list[tuple[int, str]] = field(default_factory=list)
    """The episode and its broken promise."""

    def count_verdict(self, broken: list[str]) -> None:
        self.verdicts.update([each.partition(" ")[0] for each in broken] or ["sound"])

    def summary(self, seconds: float) -> list[str]:
        each = f"{seconds / self.kills:.1f} s a kill" if self.kills else "no kill"
        lines = [
            f"{self.kills} kills in {self.episodes} episodes, {seconds:.0f} s, {each}",
            f"{self.missed} processes ended before they were killed",
            f"{len(self.broken)} broken promises",
        ]
        counted = {
            "kills by layer": self.by_layer,
            "kills by place": self.by_place,
            "kills by kind": self.by_kind,
            "kills by deed": self.by_command,
            "foreign commits": self.foreign,
            "verdicts": self.verdicts,
        }
        for title, counts in counted.items():
            lines.append(f"{title} ({counts.total()})")
            lines += [
                f"  {number:>5} {number * 100 // counts.total():>3} % {what}" for what, number in counts.most_common()
            ]
        return lines


def say(line: str) -> None:
    """Print without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
