"""`make bench`: the three measurements, one table each."""

from __future__ import annotations

from bench import demo, nothing_new, verbs

if __name__ == "__main__":
    verbs.main([])
    nothing_new.main([])
    demo.main([])
