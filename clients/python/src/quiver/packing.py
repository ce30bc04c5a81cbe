"""Prefixes as bytes: of each its length in bits, then all bytes of its address; 5 bytes for IPv4, 17 for IPv6.

Nothing here runs a loop of Python over routes but where something is wrong.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import mod
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import NamedTuple, Union

from .errors import PrefixError

Prefix = Union[str, ipaddress.IPv4Network, ipaddress.IPv6Network]

#: Bytes of a packed prefix, by whether it is IPv6.
WIDTH = {False: 5, True: 17}

_LENGTHS = {str(n): n for n in range(129)}


class Packed(NamedTuple):
    """Packed prefixes of one family."""

    ipv6: bool
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // WIDTH[self.ipv6]

    def texts(self) -> list[str]:
        """The prefixes as text."""
        return unpack(self.data, self.ipv6)

    def pieces(self, most: int) -> Iterator[Packed]:
        """The same, at most so many at once."""
        step = most * WIDTH[self.ipv6]
        for at in range(0, len(self.data), step):
            yield Packed(self.ipv6, self.data[at : at + step])


def _interleave(lengths: bytes, addresses: bytes, ipv6: bool) -> bytes:
    """Lengths and addresses laid into one another, a column at a time."""
    width = WIDTH[ipv6]
    out = bytearray(len(lengths) * width)
    out[0::width] = lengths
    for column in range(width - 1):
        out[column + 1 :: width] = addresses[column :: width - 1]
    return bytes(out)


def pack_bytes(addresses: bytes, lengths: int | bytes | Sequence[int], ipv6: bool = False) -> Packed:
    """Packs addresses that stand one behind the other in network order, 4 or 16 bytes each, as numpy's `a.astype(">u4").tobytes()` has them.

    `lengths` is that of all prefixes, or one for each.
    """
    size = 16 if ipv6 else 4
    count, rest = divmod(len(addresses), size)
    if rest:
        raise PrefixError(f"{len(addresses)} bytes of addresses, of which each takes {size}")
    try:
        each = bytes([lengths]) * count if isinstance(lengths, int) else bytes(lengths)
    except ValueError as e:
        raise PrefixError(f"a prefix length is 0 to {8 * size}") from e
    if len(each) != count:
        raise PrefixError(f"{len(each)} prefix lengths for {count} addresses")
    if each and max(each) > 8 * size:
        raise PrefixError(f"prefix length {max(each)}: it is 0 to {8 * size}")
    return Packed(ipv6, _interleave(each, bytes(addresses), ipv6))


def pack_ints(addresses: Iterable[int], lengths: int | bytes | Sequence[int], ipv6: bool = False) -> Packed:
    """Packs addresses that are numbers."""
    size = 16 if ipv6 else 4
    try:
        data = b"".join([a.to_bytes(size, "big") for a in addresses])
    except OverflowError as e:
        raise PrefixError(f"an address is a number from 0 and has {size} bytes") from e
    return pack_bytes(data, lengths, ipv6)


def pack(prefixes: Packed | Iterable[Prefix]) -> list[Packed]:
    """Packs prefixes that are text (`10.0.0.0/8`) or of the module `ipaddress`, by family: at most two groups, in the given order within each."""
    if isinstance(prefixes, Packed):
        return [prefixes] if prefixes.data else []
    texts = [prefixes] if isinstance(prefixes, str) else list(map(str, prefixes))
    if not texts:
        return []
    six = [t for t in texts if ":" in t]
    if not six:
        return [_pack_texts(texts, False)]
    if len(six) == len(texts):
        return [_pack_texts(six, True)]
    return [_pack_texts([t for t in texts if ":" not in t], False), _pack_texts(six, True)]


def _pack_texts(texts: list[str], ipv6: bool) -> Packed:
    # Address, length, and what is neither between two prefixes, so that a slash too few and one too many do not make up for each other.
    parts = "/,/".join(texts).split("/")
    try:
        if len(parts) != 3 * len(texts) - 1:
            raise ValueError
        lengths = bytes(map(_LENGTHS.__getitem__, parts[1::3]))
        addresses = b"".join(map(inet_pton, repeat(AF_INET6 if ipv6 else AF_INET), parts[0::3]))
        if max(lengths) > (128 if ipv6 else 32):
            raise ValueError
    except (ValueError, KeyError, OSError):
        raise PrefixError(_first_wrong(texts)) from None
    return Packed(ipv6, _interleave(lengths, addresses, ipv6))


def _first_wrong(texts: list[str]) -> str:
    for text in texts:
        _, slash, length = text.partition("/")
        try:
            ipaddress.ip_network(text, strict=False)
            if slash and length in _LENGTHS:
                continue
        except ValueError:
            pass
        return f"prefix {text!r} is none; right would be as 10.0.0.0/8 or 2001:db8::/32"
    return "a prefix that is none"


def unpack(data: bytes, ipv6: bool) -> list[str]:
    """Packed prefixes as text."""
    width = WIDTH[ipv6]
    if len(data) % width:
        raise PrefixError(f"{len(data)} bytes of prefixes, of which each takes {width}")
    size = width - 1
    addresses = bytearray(len(data) // width * size)
    for column in range(size):
        addresses[column::size] = data[column + 1 :: width]
    family = AF_INET6 if ipv6 else AF_INET
    view = bytes(addresses)
    texts = map(inet_ntop, repeat(family), [view[i : i + size] for i in range(0, len(view), size)])
    return list(map(mod, repeat("%s/%d"), zip(texts, data[0::width])))


def split(data: bytes, ipv6: bool) -> list[bytes]:
    """Packed prefixes, each by itself."""
    width = WIDTH[ipv6]
    return [data[i : i + width] for i in range(0, len(data), width)]


def address_bytes(text: str) -> bytes:
    """An address as 4 or 16 bytes."""
    try:
        return inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except OSError:
        raise PrefixError(f"{text!r} is no address") from None


def address_text(data: bytes) -> str:
    """An address of 4 or 16 bytes as text; empty where there is none."""
    return inet_ntop(AF_INET6 if len(data) == 16 else AF_INET, data) if data else ""
