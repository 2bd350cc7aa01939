"""`make bench`: the measurements, one table each."""

from __future__ import annotations

from bench import checks, demo, ingest, kafka, loads, many_files, nothing_new, seals, verbs

if __name__ == "__main__":
    verbs.main([])
    nothing_new.main([])
    demo.main([])
    ingest.main([])
    many_files.main([])
    kafka.main([])
    loads.main([])
    checks.main([])
    seals.main([])
