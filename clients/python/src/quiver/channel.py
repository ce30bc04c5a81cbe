"""Where the router is, and how to talk to it."""

from __future__ import annotations

import os
from typing import Any

import grpc
import grpc.aio

#: The largest message, in bytes: the router takes documents of 32 MiB.
LARGEST = 64 << 20

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    # A router that is started anew is found at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name that is the time for a connection to be made: TLS with a router that is far away, or busy, takes its time.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection of its own for each Router, whose end ends what it has under way.
    ("grpc.use_local_subchannel_pool", 1),
]

#: What gRPC would say for an authority is the path, with characters that HTTP/2 does not allow there.
UNIX_OPTIONS = [*OPTIONS, ("grpc.default_authority", "localhost")]


#: Over a network a router that is silent while a call waits is asked for a sign of life, and taken for gone after 20 s.
TLS_OPTIONS = [
    *OPTIONS,
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]


def _read(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Way:
    """How a router is reached: over a Unix socket, or over TCP with TLS where the three files are given."""

    def __init__(
        self,
        address: str,
        certificate: str | os.PathLike[str] | None,
        key: str | os.PathLike[str] | None,
        ca: str | os.PathLike[str] | None,
        server_name: str | None,
    ) -> None:
        self.credentials: grpc.ChannelCredentials | None = None
        if certificate is None and key is None and ca is None and server_name is None:
            if "/" not in address:
                raise ValueError(f"{address!r} is no path of a Unix socket; over a network certificate, key and ca are needed")
            self.target = "unix:" + os.path.abspath(address.removeprefix("unix:"))
            self.options = UNIX_OPTIONS
            return
        if certificate is None or key is None or ca is None:
            raise ValueError("TLS takes certificate, key and ca")
        self.target = "dns:///" + address
        override = [("grpc.ssl_target_name_override", server_name)] if server_name else []
        self.options = [*TLS_OPTIONS, *override]
        self.credentials = grpc.ssl_channel_credentials(_read(ca), _read(key), _read(certificate))

    def channel(self) -> grpc.Channel:
        """The connection, not made yet."""
        if self.credentials is None:
            return grpc.insecure_channel(self.target, options=self.options)
        return grpc.secure_channel(self.target, self.credentials, options=self.options)

    def aio_channel(self) -> grpc.aio.Channel:
        """The same for an event loop."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(self.target, options=self.options)
        return grpc.aio.secure_channel(self.target, self.credentials, options=self.options)
