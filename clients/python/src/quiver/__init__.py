"""Client of the Quiver router."""

from .book import Done, RouteError, RoutesRefused
from .calls import Answer, Reading, SavedConfiguration
from .errors import (
    AbortedError,
    CallError,
    CertificateError,
    DeadlineError,
    DeniedError,
    InvalidError,
    LimitError,
    PrefixError,
    QuiverError,
    RefusedError,
    UnavailableError,
    describe,
)
from .events import EventError, EventView, event_kind
from .follow import Follower
from .packets import Injector, Lost, Passing, ethertype, ip_protocol, tcp_port, udp_port
from .packing import Packed, pack, pack_bytes, pack_ints, unpack
from .program import Program
from .router import SOCKET, Router
from .routes import Kind, NextHop, Route, Routes, Target, route_filter
from .transaction import Got, Transaction

__all__ = [
    "SOCKET", "AbortedError", "Answer", "CallError", "CertificateError", "DeadlineError", "DeniedError", "Done", "EventError", "EventView",
    "Follower", "Got", "Injector", "InvalidError", "Kind", "LimitError", "Lost", "NextHop", "Packed", "Passing", "PrefixError", "Program", "QuiverError",
    "Reading", "RefusedError", "Route", "RouteError", "Router", "Routes", "RoutesRefused", "SavedConfiguration", "Target", "Transaction",
    "UnavailableError", "describe", "ethertype", "event_kind", "ip_protocol", "pack", "pack_bytes", "pack_ints", "route_filter",
    "tcp_port", "udp_port", "unpack",
]
