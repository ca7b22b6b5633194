"""Fixtures of several files."""

from playing import clock
from service import service

__all__ = ["clock", "service"]
