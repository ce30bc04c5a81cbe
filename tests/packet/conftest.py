"""What the packet tests share: one router with two known hosts, and frames in Scapy's words."""

import pytest
from harness import Bench


@pytest.fixture(scope="session")
def pair():
    """A router with hosts on `left` and `right`, whose MAC addresses it knows. Tests leave it as they found it."""
    b = Bench(PAIR)
    yield b
    b.close()


# Port 3, `bare`, has no addresses and is promiscuous ground for what must not be taken.
PAIR = {
    "routes": [
        {"prefix": "192.0.2.0/24", "type": "drop"},
        {"prefix": "198.51.100.0/24", "type": "unreachable"},
        {"prefix": "203.0.113.0/24", "type": "prohibit"},
        {"prefix": "2001:db8:d::/48", "type": "drop"},
        {"prefix": "2001:db8:e::/48", "type": "unreachable"},
        {"prefix": "2001:db8:f::/48", "type": "prohibit"},
    ],
    "quiver": {"neighbor": {"reachable-time": 3600}},
}
