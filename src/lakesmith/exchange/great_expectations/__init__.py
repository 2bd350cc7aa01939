"""Imports suites of Great Expectations as columns and checks."""
