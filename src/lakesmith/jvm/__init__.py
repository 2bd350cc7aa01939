"""Finds Java and jars, and starts and stops the JVM behind a Spark session."""
