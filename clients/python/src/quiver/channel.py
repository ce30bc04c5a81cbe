"""Where the router is, and how to talk to it."""

from __future__ import annotations

import os
from typing import Any

#: The largest message, in bytes: the router takes documents of 32 MiB.
LARGEST = 64 << 20

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    # A router that is started anew is found at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection of its own for each Router, whose end ends what it has under way.
    ("grpc.use_local_subchannel_pool", 1),
    # What gRPC would say for an authority is the path, with characters that HTTP/2 does not allow there.
    ("grpc.default_authority", "localhost"),
]


def target(path: str) -> str:
    """gRPC's name of a Unix socket."""
    return "unix:" + os.path.abspath(path.removeprefix("unix:"))
