"""Analyses SQL: what a query reads and derives, and whether it can be built from changes. Pure."""
