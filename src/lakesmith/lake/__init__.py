"""What a lake can do: plain functions on an `OpenLake`, one module a topic, and the public `Lake` that calls them."""

from lakesmith.lake.lake import Lake

__all__ = ["Lake"]
