"""Bonds: which member frames leave over, what comes in, members that fail, LACP with a partner that Scapy plays."""

import random
import re
from collections import Counter

import pytest
from frames import *
from harness import BINARY, Bench, CtlError, run, wait_for
from scapy.contrib.lacp import LACP, MarkerProtocol, SlowProtocol
from scapy.contrib.mpls import MPLS

BOND, MEMBERS = "BondEthernet0", ("m0", "m1", "m2")
HOST_MAC = "02:00:00:00:50:02"
SLOW = "01:80:c2:00:00:02"
ACTIVE, SHORT, AGGREGATES, IN_SYNC, COLLECTS, DISTRIBUTES, DEFAULTED, EXPIRED = (1 << n for n in range(8))


def bench(bond=None, bridgedomains=None, **more):
    """`left`, and a bond of three members with the network 10.0.50.0/24 behind it."""
    t = Bench({
        "bondethernets": {BOND: {"interfaces": list(MEMBERS), **(bond or {})}},
        "interfaces": {BOND: {"addresses": ["10.0.50.1/24", "2001:db8:50::1/64"]}},
        "routes": ["172.16.0.0/16 via 10.0.50.2", "2001:db8:f::/48 via 2001:db8:50::2"],
        **more, **({"bridgedomains": bridgedomains} if bridgedomains else {}),
    }, ports=("left", *MEMBERS), start=False)
    for member in MEMBERS:
        t.config["interfaces"][member] = {}
    t.config["neighbors"] = [n for n in t.config["neighbors"] if n["interface"] == "left"] + [
        {"interface": BOND, "address": a, "mac": HOST_MAC} for a in ("10.0.50.2", "2001:db8:50::2")]
    if bridgedomains is not None:
        t.config["interfaces"]["left"] = {}
        t.config["neighbors"] = []
        t.config["interfaces"][BOND] = {"sub-interfaces": {7: {}}}
        del t.config["routes"]
    t.start()
    return t


def quiver(t, *words):
    return run([BINARY, words[0], "-s", t.router.socket, *words[1:]])


def members(t):
    """Their states by name."""
    [b] = [b for b in t.router.json("show bond") if b["interface"] == BOND]
    return {m["interface"]: m["state"] for m in b["members"]}


def active(t, *names):
    wait_for(f"{names} are active", lambda: {n for n, s in members(t).items() if s == "active"} == set(names))


def mac(t):
    return t.router.interface(BOND)["mac"]


def flow(t, n, v6=False):
    """A frame of flow `n` from the host of `left`, and what must leave over the bond."""
    p = t.ports["left"]
    if v6:
        packet = udp6(p.host6, f"2001:db8:f::{n:x}", sport=1000 + n)
        out = udp6(p.host6, f"2001:db8:f::{n:x}", sport=1000 + n, hlim=63)
    else:
        packet, out = (udp4(p.host, f"172.16.{n >> 8}.{n & 255}", sport=1000 + n, ttl=ttl) for ttl in (64, 63))
    return into(p) / packet, Ether(dst=HOST_MAC, src=mac(t)) / out


def taken(t, wanted):
    """Over which member each of the frames has left (by its bytes); once each."""
    over, left = {}, {bytes(f) for f in wanted}
    def all_came():
        for m in MEMBERS:
            while (f := t.wires[m].recv(timeout=0)) is not None:
                if f in left or f in over:
                    assert f not in over, f"twice: over {over[f]} and {m}"
                    over[f] = m
                    left.discard(f)
        return not left
    wait_for("all came", all_came)
    return [over[bytes(f)] for f in wanted]


def spread(t, flows):
    """The member of each flow, which all packets of it take."""
    frames = [flow(t, n, v6=n % 2 == 1) for n in flows]
    both = []
    for _ in range(2):
        for i in range(0, len(frames), 100):
            t.left.send(*(f for f, _ in frames[i:i + 100]))
        both.append(taken(t, [out for _, out in frames]))
    assert both[0] == both[1]
    return dict(zip(flows, both[0]))


def test_flows_spread_and_a_lost_member_moves_its_own():
    t = bench({"mode": "xor"})
    try:
        active(t, *MEMBERS)
        before = spread(t, range(300))
        assert all(n > 60 for n in Counter(before.values()).values()) and len(set(before.values())) == 3
        t.outside.ip("link set m1 down")
        active(t, "m0", "m2")
        after = spread(t, range(300))
        assert all(after[n] == m for n, m in before.items() if m != "m1")
        moved = Counter(after[n] for n, m in before.items() if m == "m1")
        assert set(moved) == {"m0", "m2"} and min(moved.values()) > 20
        t.outside.ip("link set m1 up")
        active(t, *MEMBERS)
        assert spread(t, range(300)) == before
        # Fewer links than it needs.
        t.ctl(f"set bond {BOND} min-links 3")
        assert t.router.interface(BOND)["link"]
        t.outside.ip("link set m1 down")
        wait_for("no link", lambda: not t.router.interface(BOND)["link"])
        t.router.check_quiet()
    finally:
        t.close()


def test_what_comes_in_is_the_bonds():
    """From any member, with the bond's address alone; LLDP and LACP are the link's."""
    t = bench({"mode": "xor", "mac": "02:00:00:00:99:99"})
    try:
        active(t, *MEMBERS)
        assert mac(t) == "02:00:00:00:99:99"
        left = t.ports["left"]
        for m in MEMBERS:
            assert t.inside.run(f"cat /sys/class/net/{m}/address").stdout.strip() == "02:00:00:00:99:99"
            t.wires[m].send(Ether(dst=mac(t), src=HOST_MAC) / udp4("172.16.0.9", left.host))
            t.left.expect(out_of(left) / udp4("172.16.0.9", left.host, ttl=63))
        assert int(t.router.interface(BOND)["rx"]["packets"]) == 3
        with t.counted("bond-member-inactive"):
            t.ctl(f"set bond {BOND} mode active-backup")
            active(t, "m0")
            t.m1.send(Ether(dst=mac(t), src=HOST_MAC) / udp4("172.16.0.9", left.host))
        # No member has anything of its own.
        for line, why in (
            ("set interface ip address m0 10.7.0.1/24", f"carries the frames of {BOND}: undo that first (bond del m0)"),
            ("create sub-interfaces m0 5", f"carries the frames of {BOND}"),
            ("set interface mac address m0 02:00:00:00:00:07", f"carries the frames of {BOND}"),
            ("bond add BondEthernet0 left", "it has the address"),
            ("bond add left m0", "left is no bond"),
            ("bond del left", "left is a member of no bond"),
            (f"set bond {BOND} load-balance l2", "the mode active-backup does not balance load"),
            (f"set interface mtu 9000 {BOND}", "is more than its member m0 has, 1500"),
        ):
            with pytest.raises(CtlError) as e:
                t.ctl(line)
            assert why in str(e.value), e.value
        # Who leaves has its own address again.
        t.ctl("bond del m2")
        assert t.router.interface("m2")["mac"] == t.ports["m2"].mac
        t.ctl("set interface ip address m2 10.7.0.1/24")
        t.router.check_quiet()
    finally:
        t.close()


def test_the_backup_takes_over_and_the_heavier_comes_back():
    t = bench({"mode": "active-backup", "members": {"m1": {"weight": 10}}})
    try:
        active(t, "m1")
        assert set(spread(t, range(20)).values()) == {"m1"}
        for m in ("m0", "m2"):
            t.wires[m].drain()
        t.outside.ip("link set m1 down")
        # The stations and switches there learn where it is.
        t.m0.wait(lambda f: ARP in f and f[ARP].psrc == "10.0.50.1" and f[ARP].pdst == "10.0.50.1" and f.src == mac(t))
        active(t, "m0")
        assert set(spread(t, range(20)).values()) == {"m0"}
        t.outside.ip("link set m1 up")
        active(t, "m1")
        t.ctl("set interface bond m2 weight 11")
        active(t, "m2")
        assert "weight 11" in t.ctl("show bond details")
    finally:
        t.close()


@pytest.mark.parametrize("mode", ["round-robin", "broadcast"])
def test_packets_over_all(mode):
    t = bench({"mode": mode})
    try:
        active(t, *MEMBERS)
        for m in MEMBERS:
            t.wires[m].drain()
        frames = [flow(t, n) for n in range(30)]
        t.left.send(*(f for f, _ in frames))
        per = 10 if mode == "round-robin" else 30
        wanted = {bytes(out) for _, out in frames}
        for m in MEMBERS:
            got = [f for f in t.wires[m].take(per)]
            assert set(got) <= wanted and len(set(got)) == per
        assert all(t.wires[m].recv(timeout=0.05) is None for m in MEMBERS)
    finally:
        t.close()


def test_hashes_look_at_what_they_say():
    """Frames through a bridge domain that differ in one thing: they stay together but where the hash is of that."""
    t = bench({"mode": "xor"}, bridgedomains={"bd7": {"interfaces": ["left", f"{BOND}.7"]}})
    try:
        active(t, *MEMBERS)
        tags = [[], [Dot1Q(vlan=9)]]
        def frame(n, what, tag, packet):
            f = Ether(dst="02:00:00:00:77:02", src=f"02:00:00:01:00:{n if what == 'mac' else 1:02x}")
            for x in tag:
                f = f / x
            return f / packet(n, what)
        def v4(n, what):
            return udp4("192.0.2.1", f"198.51.100.{n if what == 'ip' else 1}", sport=n if what == "port" else 7)
        def v6(n, what):
            return udp6("2001:db8::1", f"2001:db8::{n if what == 'ip' else 1:x}", sport=n if what == "port" else 7)
        kinds = [(tag, packet) for tag in tags for packet in (v4, v6, lambda n, what: MPLS(label=100, s=1, ttl=9) / v4(n, what))]
        for balance, counts in (("l2", {"mac"}), ("l23", {"mac", "ip"}), ("l34", {"ip", "port"})):
            t.ctl(f"set bond {BOND} load-balance {balance}")
            for tag, packet in kinds:
                for what in ("mac", "ip", "port"):
                    frames = [frame(n, what, tag, packet) for n in range(1, 25)]
                    t.left.send(*frames)
                    over = set(taken(t, [bytes(f)[:12] + bytes.fromhex("81000007") + bytes(f)[12:] for f in frames]))
                    assert (len(over) == 1) == (what not in counts), (balance, what, tag, over)
        t.router.check_quiet()
    finally:
        t.close()


def test_mirrors_of_bonds_and_to_bonds():
    t = bench({"mode": "xor"})
    try:
        active(t, *MEMBERS)
        left = t.ports["left"]
        # What comes in over any member, and what leaves, is seen at another port as the bond's.
        frame = Ether(dst=mac(t), src=HOST_MAC) / udp4("172.16.0.9", left.host)
        t.ctl(f"set interface span {BOND} destination left both")
        for m in MEMBERS:
            t.wires[m].send(frame)
            assert set(t.left.take(2)) == {bytes(frame), bytes(out_of(left) / udp4("172.16.0.9", left.host, ttl=63))}
        packet, out = flow(t, 3)
        t.left.send(packet)
        t.left.expect(out)
        taken(t, [out])
        t.ctl(f"set interface span {BOND} destination left disable")
        # Copies to a bond leave over one member, that of their flow.
        t.ctl(f"set interface span left destination {BOND} rx")
        aside = into(left) / udp4(left.host, "192.0.2.77")
        for _ in range(3):
            t.left.send(aside)
            taken(t, [aside])
        t.router.check_quiet()
    finally:
        t.close()


class Partner:
    """The other end of some members, as one system."""

    def __init__(self, t, system="02:00:00:00:aa:01", key=7):
        self.t, self.system, self.key = t, system, key

    def pdu(self, m, state, seen=None, **more):
        """A PDU over member `m`, that knows what was `seen` of the router."""
        fields = dict(actor_system_priority=100, actor_system=self.system, actor_key=self.key, actor_port_priority=1,
                      actor_port_number=1 + MEMBERS.index(m), actor_state=state, **more)
        if seen is not None:
            fields.update({f"partner_{k}": getattr(seen, f"actor_{k}") for k in
                           ("system_priority", "system", "key", "port_priority", "port_number", "state")})
        return Ether(dst=SLOW, src=self.system, type=0x8809) / SlowProtocol(subtype=1) / LACP(**fields)

    def hear(self, m, matches=lambda l: True, timeout=5):
        """What the router says over a member."""
        return self.t.wires[m].wait(lambda f: LACP in f and matches(f[LACP]), timeout=timeout)[LACP]

    def agree(self, *names):
        """Goes through it with these members until frames may be sent."""
        all_of_it = ACTIVE | SHORT | AGGREGATES | IN_SYNC | COLLECTS | DISTRIBUTES
        for m in names:
            self.t.wires[m].drain()
            # It answers, whatever its own pace is.
            self.t.wires[m].send(self.pdu(m, ACTIVE | SHORT | AGGREGATES))
            self.t.wires[m].send(self.pdu(m, ACTIVE | SHORT | AGGREGATES, self.hear(m)))
        for m in names:
            seen = self.hear(m, lambda l: l.actor_state & IN_SYNC)
            self.t.wires[m].send(self.pdu(m, all_of_it, seen))
            seen = self.hear(m, lambda l: l.actor_state & DISTRIBUTES)
            self.t.wires[m].send(self.pdu(m, all_of_it, seen))


def test_lacp_uses_what_both_agree_on():
    t = bench({"mode": "lacp"})
    try:
        # It speaks first, from the link's own address.
        one, other = Partner(t), Partner(t, key=8)
        first = t.m0.wait(lambda f: LACP in f)
        assert first.src == t.ports["m0"].mac and first.dst == SLOW
        assert first[LACP].actor_system == mac(t) and first[LACP].actor_state & DEFAULTED
        assert not t.router.interface(BOND)["link"]
        one.agree("m0", "m1")
        active(t, "m0", "m1")
        assert t.router.interface(BOND)["link"]
        rows = {r["interface"]: r for r in t.router.json("show lacp")}
        assert rows["m0"]["partner"]["system"] == one.system and rows["m0"]["mux"] == "DISTRIBUTING"
        assert rows["m2"]["partner"] is None
        # Another key there is another bond.
        t.m2.send(other.pdu("m2", ACTIVE | SHORT | AGGREGATES, other.hear("m2")))
        wait_for("it was heard", lambda: {r["interface"]: r for r in t.router.json("show lacp m2")}["m2"]["receive"] == "CURRENT")
        assert members(t)["m2"] == "inactive"
        # A marker is answered.
        asked = Ether(dst=SLOW, src=one.system, type=0x8809) / SlowProtocol(subtype=2) / MarkerProtocol(
            marker_type=1, requester_port=5, requester_system=one.system, requester_transaction_id=0x12345678)
        t.m0.send(asked)
        answer = t.m0.wait(lambda f: MarkerProtocol in f)[MarkerProtocol]
        assert (answer.marker_type, answer.requester_port, answer.requester_transaction_id) == (2, 5, 0x12345678)
        # Who falls silent is out after three seconds; who says that it leaves, at once.
        one.agree("m0", "m1")
        t.m1.send(one.pdu("m1", ACTIVE | SHORT, one.hear("m1")))
        wait_for("m1 is out", lambda: members(t)["m1"] == "inactive")
        wait_for("m0 is out", lambda: members(t)["m0"] == "inactive", timeout=8)
        wait_for("no link", lambda: not t.router.interface(BOND)["link"])
        t.router.check_quiet()
    finally:
        t.close()


def test_mad_lacp():
    """Random states, systems and bytes change nothing but members, and other interfaces go on."""
    t = bench({"mode": "lacp"})
    try:
        r = random.Random(3)
        p = Partner(t)
        good = bytes(p.pdu("m0", ACTIVE | SHORT | AGGREGATES))
        for _ in range(20):
            frames = []
            for _ in range(100):
                f = bytearray(good)
                for _ in range(r.choice([0, 1, 4, 60])):
                    f[r.randrange(14, len(f))] = r.randrange(256)
                frames.append(bytes(f[:r.choice([len(f), r.randrange(15, len(f))])]))
            t.wires[r.choice(MEMBERS)].send(*frames)
            assert t.router.ctl_raw("show bond").returncode == 0
        [row] = [row for row in t.router.json("show lacp") if row["interface"] == "m0"]
        assert row["ignored"] > 0
        # Those that it took for partners are believed for a few seconds.
        wait_for("all are forgotten", lambda: all(row["partner"] is None for row in t.router.json("show lacp")), timeout=15)
        p.agree("m1")
        wait_for("it still works", lambda: members(t)["m1"] == "active", timeout=15)
        t.router.check_quiet()
    finally:
        t.close()


def test_documents_change_it_in_place(tmp_path):
    t = bench({"mode": "xor", "load-balance": "l23", "mac": "02:00:00:00:99:98", "members": {"m0": {"passive": True, "weight": 3}}})
    try:
        active(t, *MEMBERS)
        # A member may be larger than its bond: no document says so, and none need.
        t.ctl("set interface mtu 9000 m1")
        dumped = quiver(t, "dump").stdout
        path = tmp_path / "changed.yaml"
        path.write_text(dumped)
        assert not re.search(r"bond|Bond", quiver(t, "plan", str(path)).stdout)
        path.write_text(dumped.replace("load-balance: l23", "min-links: 2").replace("      - m2\n", ""))
        plan = quiver(t, "plan", str(path)).stdout
        assert f"set bond {BOND} load-balance l34 min-links 2" in plan and "bond del m2" in plan, plan
        index = t.router.interface(BOND)["index"]
        quiver(t, "apply", str(path))
        active(t, "m0", "m1")
        assert t.router.interface(BOND)["index"] == index
    finally:
        t.close()
