"""The only room that moves rows: finds Java and jars, starts Spark, reads sources and writes tables."""
