"""Fixtures of several files."""

import os

# Otherwise gRPC waits for seconds where a test starts a process while its service runs here.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from playing import clock
from service import service

__all__ = ["clock", "service"]
