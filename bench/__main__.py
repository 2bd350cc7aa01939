"""`make bench`: the measurements, one table each."""

from __future__ import annotations

from bench import checks, checksums, demo, ingest, kafka, large_file, loads, many_files, nothing_new, read_commands

if __name__ == "__main__":
    read_commands.main([])
    nothing_new.main([])
    demo.main([])
    ingest.main([])
    large_file.main([])
    many_files.main([])
    kafka.main([])
    loads.main([])
    checks.main([])
    checksums.main([])
