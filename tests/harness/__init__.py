"""What the packet tests and the labs stand on: namespaces, wires, and the running router."""

import logging

logging.getLogger("scapy").setLevel(logging.ERROR)

from .expect import sorted_hex, wait_for  # noqa: E402
from .flood import Flood  # noqa: E402
from .host import Host, veth  # noqa: E402
from .netns import Netns, run  # noqa: E402
from .router import BINARY, Bench, CtlError, Router  # noqa: E402
from .wire import Wire  # noqa: E402

__all__ = [
    "BINARY", "Bench", "CtlError", "Flood", "Host", "Netns", "Router", "Wire", "run", "sorted_hex", "veth", "wait_for",
]
