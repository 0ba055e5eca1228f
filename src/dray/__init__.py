"""Dray: the Kubernetes device stack. Start reading at docs/house.md; the rooms are listed there."""

__version__ = "0.1.0"
