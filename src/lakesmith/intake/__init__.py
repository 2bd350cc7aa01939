"""Bytes become Arrow batches of a table's columns. Runs inside Spark's Python workers, and needs no Spark itself."""
