"""Packing, compared with the module `ipaddress`."""

import ipaddress
import random
import re
import unittest

from quiver import NextHop, PrefixError, Target, pack, pack_bytes, pack_ints, unpack
from quiver.routes import target


def some(rng, ipv6, count):
    bits = 128 if ipv6 else 32
    return [ipaddress.ip_network((rng.getrandbits(bits), rng.randint(0, bits)), strict=False) for _ in range(count)]


def naive(networks):
    return b"".join(bytes([n.prefixlen]) + n.network_address.packed for n in networks)


class Packing(unittest.TestCase):
    def test_agrees_with_ipaddress(self):
        rng = random.Random(17)
        for ipv6 in (False, True):
            for count in (1, 2, 7, 300):
                networks = some(rng, ipv6, count)
                (packed,) = pack(map(str, networks))
                self.assertEqual((packed.ipv6, packed.data), (ipv6, naive(networks)))
                self.assertEqual(pack(networks), [packed])
                lengths = [n.prefixlen for n in networks]
                self.assertEqual(pack_ints([int(n.network_address) for n in networks], lengths, ipv6), packed)
                self.assertEqual(pack_bytes(b"".join(n.network_address.packed for n in networks), lengths, ipv6), packed)
                back = [ipaddress.ip_network(text) for text in unpack(packed.data, ipv6)]
                self.assertEqual(back, networks)
                self.assertEqual(b"".join(p.data for p in packed.pieces(3)), packed.data)

    def test_both_families(self):
        four, six = pack(["10.0.0.0/8", "2001:db8::/32", "10.1.0.0/16"])
        self.assertEqual((four.texts(), six.texts()), (["10.0.0.0/8", "10.1.0.0/16"], ["2001:db8::/32"]))
        self.assertEqual(pack([]), [])

    def test_refuses_what_is_none(self):
        good = "10.0.0.0/8"
        for bad in ("10.0.0.0", "x/3", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/ 8", "1.2.3.4/8/8", "10.0.0/8", "::/129", "", "1.2.3.4/08", "eth0"):
            with self.subTest(bad), self.assertRaisesRegex(PrefixError, "is none; right would be"):
                pack([good, bad, good])
            with self.subTest(bad), self.assertRaisesRegex(PrefixError, f"^prefix {re.escape(repr(bad))} is none"):
                pack([good, bad])
        # Together they have as many parts as two prefixes have.
        with self.assertRaisesRegex(PrefixError, "prefix '10.0.0.0' is none"):
            pack(["10.0.0.0", "8/10.0.0.0/8"])
        for addresses, lengths in ((b"abc", 8), (b"abcd", 33), (b"abcd", [8, 8]), (b"abcd", 300), (b"abcd", [-1])):
            with self.subTest(addresses=addresses, lengths=lengths), self.assertRaises(PrefixError):
                pack_bytes(addresses, lengths)
        for number in (-1, 1 << 32):
            with self.assertRaises(PrefixError):
                pack_ints([number], 8)

    def test_targets(self):
        self.assertEqual(target("10.0.0.1 left"), Target((NextHop("10.0.0.1", "left"),)))
        self.assertEqual(target(["fe80::1 left", NextHop("10.0.0.1", weight=3)]).next_hops[1].weight, 3)
        self.assertEqual(target("left"), Target((NextHop(interface="left"),)))
        self.assertEqual(target("drop"), Target(action="drop"))
        for bad in ("", "10.0.0.1 left right", Target(action="local")):
            with self.subTest(bad), self.assertRaises(PrefixError):
                target(bad)


if __name__ == "__main__":
    unittest.main()
