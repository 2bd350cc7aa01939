"""Analyses SQL: what a query reads, keeps and derives, and whether it can be computed from changes. Pure."""
