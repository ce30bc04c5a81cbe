"""Client of the Quiver router."""

from .book import Done, RouteError, RoutesRefused
from .calls import Answer, Reading, SavedConfiguration
from .errors import (
    AbortedError,
    CallError,
    DeadlineError,
    DeniedError,
    InvalidError,
    PrefixError,
    QuiverError,
    RefusedError,
    UnavailableError,
    describe,
)
from .events import EventError, EventView, event_kind
from .follow import Follower
from .packing import Packed, pack, pack_bytes, pack_ints, unpack
from .program import Program
from .router import SOCKET, Router
from .routes import Kind, NextHop, Route, Routes, Target, route_filter
from .transaction import Got, Transaction

__all__ = [
    "SOCKET", "AbortedError", "Answer", "CallError", "DeadlineError", "DeniedError", "Done", "EventError", "EventView", "Follower", "Got",
    "InvalidError", "Kind", "NextHop", "Packed", "PrefixError", "Program", "QuiverError", "Reading", "RefusedError", "Route", "RouteError",
    "Router", "Routes", "RoutesRefused", "SavedConfiguration", "Target", "Transaction", "UnavailableError", "describe", "event_kind",
    "pack", "pack_bytes", "pack_ints", "route_filter", "unpack",
]
