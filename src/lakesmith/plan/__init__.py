"""Declarations and facts become steps. Pure: no I/O, no JVM."""
