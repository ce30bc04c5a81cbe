"""docs/json.md against the answers of a router that has something of everything: paths, types, and nothing left out."""

import json
import os
import re
import threading

import pytest
from frames import *  # noqa: F403
from frames import ARP, ICMP, IP, UDP, Dot1Q, Ether, IPv6, IPv6ExtHdrFragment, Raw, into, through4, through6, udp4
from harness import wait_for
from harness.router import BINARY, REPO
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import fragment

DOCS = os.path.join(REPO, "docs")

HAS_DPDK = os.path.exists(os.path.join(os.path.dirname(BINARY), "quiver-dpdk.so"))

# Documented fields that no answer below has, or has only as null.
UNSEEN = {
    # Of a device of DPDK's; without the library there is none. No device of a test is on a NUMA node, and not every kernel tells that of processors.
    "show hardware-interfaces": {"device-statistics[].name", "device-statistics[].value", "numa"},
    "show threads": {"numa"},
    "create interface dpdk": set() if HAS_DPDK else {"name", "index"},
    # What the other side says, which is not there.
    "show memif": {f"interfaces[].{field}" for field in ("peer", "program", "process", "rx", "tx", "slots", "mib", "error", "error-seconds")},
    "show vhost-user": {"process", "pairs", "size", "regions", "mib", "features"},
    # Paths of labels into tables have kinds of their own.
    "show mpls fib LABEL": {"labels[].next-hop-group.paths[].table"},
    # Of traffic in the last second, and of a device that lost some.
    "show load": {f"{of}[].{f}" for of in ("workers", "queues") for f in ("vector", "full")}
    | {f"queues[].{of}drops[].{f}" for of in ("", "interface-") for f in ("reason", "packets")}
    | {f"elephants[].{f}" for f in ("flow", "interface", "worker", "share", "packets-per-second")},
    # Pairs in the router's own namespace.
    # What Linux changes; tests/labs/test_linux_devices.py, test_linux_namespaces.py and test_vlan_vrf_devices.py do.
    "show lcp bridges": {"bridges[].netns", "bridges[].table", "refused[].netns"},
    # This machine's kernel may have no VLAN devices.
    "show lcp": {"default-netns", "pairs[].netns", "pairs[].missing", *(f"not-followed[].{f}" for f in ("netns", "host-if", "reason")), *(f"pairs[].from-linux.{f}" for f in ("state", "mtu", "mac", "table")),
                 "pairs[].refused-table", *(f"pairs[].refused-table.{f}" for f in ("table", "reason")),
                 *(f"pairs[].refused[].{f}" for f in ("address", "reason"))},
    # Of routes of Linux's that fail or differ, and of labels, which not every kernel has; tests/labs/test_linux_routes.py has them.
    "show netlink": {"netns", *(f"failures[].{f}" for f in ("prefix", "metric", "table", "label", "reason")), "unsupported[].what", "unsupported[].routes"},
    # zebra is not there; tests/labs/test_frr_fpm.py has it.
    # No partner speaks; tests/packet/test_bond.py and tests/labs/test_bond_linux.py have some.
    "show lacp": {"heard-s", "partner", *(f"partner.{f}" for f in ("system-priority", "system", "key", "port-priority", "port", "state"))},
    "show fpm": {"peer", "netns", "trouble", *(f"failures[].{f}" for f in ("prefix", "metric", "table", "label", "reason")), "unsupported[].what", "unsupported[].routes"},
    # Of programs that set routes over the API.
    "show api": {"at", "tls", "problem"},
    "show api clients": {"client", "connections"},
    "show route clients": {"source", "streams", "preference", "grace", "left", "routes", "stale", "batches", "changes", "refused", "last-error"},
    # Of sources that have registered; tests/packet/test_routes.py has one.
    "show route-preference": {"routes"},
    "fib diff kernel": {"table", "prefix", "metric", "label", "eos", "kernel", "router"},
    # A TAP beside the router, where Linux has no IPv6.
    # Of what differs; a plan has them.
    "show configuration diff": {"touches"},
    "show tap": {"host-ns", "host-bridge", "host-ip6-addr", "host-ip6-gw"},
}
# Strings that may look like a number: hexadecimal bytes, words of commands.
WORDS = {"rewrite", "size"}
# Answers that are no lists of fields: what there is instead.
OTHERWISE = {"show configuration": dict, "show configuration restart": list, "show log": list, "show last-words": list}
EMPTY = {"show last-words", "show configuration restart"}

CONFIG = {
    "interfaces": {
        "left": {
            "description": "To the left", "mpls": True, "addresses": ["10.0.1.1/24", "2001:db8:1::1/64"],
            "sub-interfaces": {
                100: {}, 300: {"l2xc": "right.300"}, 400: {"unnumbered": "loop1"},
                200: {"encapsulation": {"dot1ad": 200, "inner-dot1q": 7, "exact-match": True}, "addresses": ["10.200.0.1/24"]},
            },
        },
        "right": {
            "mpls": True, "addresses": ["10.0.2.1/24", "2001:db8:2::1/64"],
            "sub-interfaces": {100: {}, 300: {"l2xc": "left.300"}},
        },
        "wire": {"l2xc": "mpls-tunnel0"},
        "mpls-tunnel0": {"l2xc": "wire"},
    },
    "loopbacks": {
        "loop0": {"addresses": ["10.10.0.1/24", "2001:db8:10::1/64"]},
        "loop1": {"lcp": "lo1", "addresses": ["10.255.0.1/32", "2001:db8:ff::1/128"]},
    },
    "bridgedomains": {"bd10": {
        "bvi": "loop0", "interfaces": ["left.100", "right.100"], "settings": {"arp-termination": True, "mac-age-minutes": 5},
    }},
    "l2": {
        "interfaces": {"left.100": {"learn-limit": 100}, "right.100": {"uu-flood": False, "split-horizon-group": 1}},
        "bridgedomains": {"bd10": {
            "learn-limit": 1000, "macs": {"02:00:00:00:00:77": "right.100", "02:00:00:00:00:78": "filter"},
            "arp": {"10.10.0.7": "02:00:00:00:00:77"},
        }},
    },
    "linux-cp": {"fpm": {"port": 2620}},
    "tables": {10: {"name": "red"}},
    "l3": {
        "reassembly": {kind: {"timeout-ms": 600000} for kind in ("ip4", "ip6", "ip4-virtual", "ip6-virtual")},
        "interfaces": {
            "left": {
                "urpf": {"ip4": "loose", "ip6": {"tx": "loose"}}, "tcp-mss-clamp": 1400, "redirects": True, "proxy-arp": True,
                "groups": ["224.0.0.5", "ff02::5"], "reassembly": True,
            },
            "right": {
                "virtual-reassembly": True,
                "router-advertisements": {
                    "prefixes": {"2001:db8:77::/64": {}}, "routes": {"2001:db8:9::/48": {}}, "dns-servers": ["2001:db8::53"],
                    "search-domains": ["example.net"],
                },
            },
            "left.200": {"table": 10},
        },
        "proxy-arp": ["10.0.2.128 - 10.0.2.254"],
        "nd-proxy": [{"interface": "right", "address": "2001:db8:1::50"}],
    },
    "mpls": {
        "local-labels": ["100 via 10.0.2.2 right out-labels 200", "101 eos via ip4-lookup-in-table 0",
                         "102 via 10.0.2.2 right out-labels 33 300"],
        "tunnels": {"mpls-tunnel0": {"l2-only": True, "via": "10.0.2.2 right out-labels 300 301"}},
    },
    "routes": [
        "10.50.0.0/16 via 10.0.1.2, 10.0.2.2 weight 2", "10.50.0.0/24 via 10.0.2.2", "10.50.7.0/24 via 10.0.2.2",
        "10.51.0.0/16 via 10.0.2.2 right out-labels 400", "10.52.0.0/16 table 10 via ip4-lookup-in-table 0",
        "2001:db8:50::/48 via 2001:db8:2::2", "2001:db8:51::/48 via 2001:db8:2::2 right out-labels 401",
        "2001:db8:51::/64 via 2001:db8:2::2", "2001:db8:52::/48 table 10 via ip6-lookup-in-table 0",
        {"prefix": "192.0.2.0/24", "type": "drop"},
    ],
    "neighbors": [
        {"interface": "left", "address": "10.0.1.2", "mac": "02:00:00:00:01:02"},
        {"interface": "left", "address": "10.0.1.8", "mac": "02:00:00:00:01:02"},
        {"interface": "left", "address": "2001:db8:1::2", "mac": "02:00:00:00:01:02"},
        {"interface": "right", "address": "10.0.2.2", "mac": "02:00:00:00:02:02"},
        {"interface": "right", "address": "2001:db8:2::2", "mac": "02:00:00:00:02:02"},
    ],
    "taps": {"tap9": {"host": {
        "name": "tap9", "mac": "02:00:00:00:03:03", "ip4-address": "10.3.3.2/24", "ip4-gateway": "10.3.3.1"}, "rx-ring-size": 256}},
    "punt": {"bgp": "off"},
    "quiver": {"workers": {"cpus": [max(os.sched_getaffinity(0))]}},
    "packet-generator": [
        {"name": name, "interface": "left", "node": "ip4-input", "layers": [{"ipv4": {"src": "10.0.1.2", "dst": "10.0.2.2"}}], **more}
        for name, more in {"made": {"count": 10, "rate": 1000, "state": "enabled"}, "more": {}}.items()
    ],
}

# By section of the document: the commands that are run.
COMMANDS = {
    "show configuration": ["show configuration"],
    "show log": ["show log"],
    "configuration history NUMBER": ["configuration history 1", "configuration history 2"],
    "show features": ["show features"],
    "show features INTERFACE": ["show features left"],
    "show graph": ["show graph"],
    "show graph dot": ["show graph dot"],
    "show hardware-interfaces": ["show hardware-interfaces", "show hardware-interfaces left.200", "show hardware-interfaces brief"],
    "show bridge-domain": ["show bridge-domain", "show bridge-domain 10 detail"],
    "show ip fib": ["show ip fib", "show ip fib table 10"],
    "show ip6 fib": ["show ip6 fib", "show ip6 fib table 10"],
    "show ip fib PREFIX": [
        f"show ip fib {p}" for p in ("10.50.3.1", "10.51.0.1", "10.0.1.2", "10.0.1.1", "10.0.1.99", "10.50.0.0/16", "10.50.0.0/17",
                                     "192.0.2.0/24", "192.0.3.0", "table 10 10.52.0.1", "table 10 10.77.0.1")],
    "show ip6 fib PREFIX": [
        f"show ip6 fib {p}" for p in ("2001:db8:50::1", "2001:db8:51:1::1", "2001:db8:51::/48", "2001:db8:1::1", "2001:db8:1::/64",
                                      "3000::", "table 10 2001:db8:52::1", "table 10 2001:db8:77::1")],
    "fib why": [f"fib why {a}" for a in (
        "10.50.3.1", "10.51.0.1", "10.0.1.2", "10.0.1.1", "203.0.113.1", "2001:db8:50::1", "10.52.0.1 table 10", "10.77.0.1 table 10")],
    "show ip fib summary": ["show ip fib summary"],
    "show ip6 fib summary": ["show ip6 fib table 10 summary"],
    "show l2fib": ["show l2fib", "show l2fib verbose", "show l2fib bd_id 10 learn"],
    "show mpls fib": ["show mpls fib"],
    "show mpls fib LABEL": ["show mpls fib 100", "show mpls fib 101", "show mpls fib 102", "show mpls fib 999"],
    "show node": ["show node"],
    "show node NODE": ["show node ip4-input", "show node af-packet-input", "show node error-drop"],
    "show punt": ["show punt", "show punt verbose"],
    "show runtime": ["show runtime", "show runtime max", "show runtime verbose"],
    "show version": ["show version", "show version verbose"],
    **{name: [f"{name} details"] for name in [f"show ip{v}-{kind}-reassembly" for v in "46" for kind in ("full", "sv")]},
    "show counters": ["show counters"],
    "show counters NAME": ["show counters interface-rx/packets", "show counters node/calls", "show counters punt/passed"],
    "show errors": ["show errors", "show errors verbose"],
    "show adjacency": ["show adjacency", "show adjacency nbr"],
    "ping": ["ping 10.0.1.2 repeat 2 interval 20ms timeout 10s", "ping 10.0.1.8 repeat 2 interval 20ms timeout 10s"],
    "traceroute": ["traceroute 10.0.1.2 max-ttl 2 queries 1 timeout 10s",
                   "traceroute 10.0.1.8 icmp max-ttl 1 queries 1 timeout 10s"],
    "pcap trace status": ["pcap trace status"],
    "packet-generator show": ["packet-generator show"],
    "create bond mode": ["create bond mode lacp id 7"],
    "create sub-interfaces": ["create sub-interfaces right 500-502", "create sub-interfaces right 600"],
    "create gre tunnel src": ["create gre tunnel src 10.0.1.1 dst 192.0.2.78"],
    "create vxlan tunnel src": ["create vxlan tunnel src 10.0.1.1 dst 192.0.2.78 vni 8"],
    "create host-interface name": ["create host-interface name spare"],
    "create pcap-interface name": ["create pcap-interface name replay write {}/replay.pcap"],
    "create interface memif": ["create interface memif id 1 socket-id 1"],
    "create vhost-user socket": ["create vhost-user socket @vhost1 server"],
    "create interface dpdk": ["create interface dpdk net_null7"] if HAS_DPDK else [],
    "create loopback interface": ["create loopback interface instance 9"],
    "create tap": ["create tap id 3"],
    "show tap": ["show tap", "show tap tap9"],
    "mpls tunnel add": ["mpls tunnel add via 10.0.2.2 right out-labels 500"],
    "pcap trace off": ["pcap trace off overwrite"],
}


def commands():
    """The commands that docs/commands.md has, without words that stand for values."""
    with open(os.path.join(DOCS, "commands.md")) as f:
        return set(re.findall(r"^## (.*)$", f.read(), re.M))


def document():
    """The sections of docs/json.md: by command the way in, and a list of field, type and meaning. What stands under a
    heading of several commands holds for each."""
    with open(os.path.join(DOCS, "json.md")) as f:
        text = f.read()
    sections = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, body = part.split("\n", 1)
        lines = [line for line in body.splitlines() if line.startswith("| `")]
        rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
        assert all(len(row) == 3 and all(row) for row in rows), (heading, rows)
        for name in heading.split(", "):
            assert name not in sections, name
            sections[name] = (body.strip(), rows)
    return sections


def kinds(sections, section, seen=()):
    """The types of all fields of a section by path; a link to another section stands for the fields of that one."""
    out = {}
    for field, kind, _ in sections[section][1]:
        path = field.strip("`")
        assert path not in out, (section, path)
        link = re.fullmatch(r"\[[a-z -]+\]\(#([a-z0-9-]+)\)( or null)?", kind)
        if not link:
            out[path] = kind
            continue
        target = next(name for name in sections if name.lower().replace(" ", "-") == link[1])
        if target not in seen:
            out[path] = "object" + (link[2] or "")
            out.update({f"{path}.{k}": v for k, v in kinds(sections, target, (*seen, section)).items()})
    return out


def flat(value, path, known):
    """The paths of a value with what is there; keys that the document does not name are taken for `{id}` where it has one."""
    if isinstance(value, dict):
        yield path, {}
        for key, inner in value.items():
            at = f"{path}.{key}" if path else key
            wild = f"{path}.{{id}}" if path else "{id}"
            is_wild = any(k == wild or k.startswith(wild + ".") for k in known)
            yield from flat(inner, wild if is_wild else at, known)
    elif isinstance(value, list) and (not value or isinstance(value[0], (dict, list)) or None in value):
        yield path, []
        for inner in value:
            yield from flat(inner, f"{path}[]", known)
    else:
        yield path, value


def fits(value, kind):
    """Whether a value is of a type in the words of the document."""
    if value is None:
        return kind.endswith("or null")
    for word in re.split(r", or |, | or ", kind):
        inner = {"list of strings": str, "list of numbers": int}.get(word)
        if inner and isinstance(value, list) and all(isinstance(v, inner) for v in value):
            return True
        plain = {"string": str, "boolean": bool, "number": (int, float), "object": dict, "list": list}.get(word)
        if plain and isinstance(value, plain) and isinstance(value, bool) == (word == "boolean"):
            return True
        if isinstance(value, str) and word == f"`{value}`":
            return True
    return False


def check(answer, known, where, seen, wrong):
    """Notes what of an answer is not documented, or is of another type; and which fields came."""
    for path, value in flat(answer, "", known):
        path = path.removeprefix("[]").removeprefix(".")
        inside = any(k.startswith((path + ".", path + "[")) for k in known) or not path
        if path in known:
            if not fits(value, known[path]):
                wrong.append(f"{where}: {path}: {value!r} is not {known[path]}")
            if isinstance(value, str) and path.split(".")[-1] not in WORDS and re.fullmatch(r"-?[0-9]+([.][0-9]+)?", value):
                wrong.append(f"{where}: {path}: {value!r} is a number in quotes")
            if value is not None:
                seen.add(path)
        elif not (inside and value in ({}, [])):
            wrong.append(f"{where}: {path} is not documented, {value!r}")


@pytest.fixture
def busy(bench, tmp_path):
    """A router with something of everything, and the traffic for its counters."""
    t = bench({**CONFIG, "quiver": {**CONFIG["quiver"], "state": f"{tmp_path}/state"}}, ports=("left", "right", "wire"), addresses=False)
    t.inside.ip("link add spare type veth peer name other")
    t.inside.ip("link add strand type veth peer name far")
    t.inside.ip("link set far up")
    a, b = t.ports["left"], t.ports["right"]
    # A bridge of Linux's, one port of which cannot be one.
    for line in ("link add br9 type bridge", "link add vxlan9 type vxlan id 9 local 10.0.1.1 dstport 4789 nolearning", "link set vxlan9 master br9 up",
                 "link set lo1 master br9", "link set br9 up", "address add 10.99.0.1/24 dev br9"):
        t.inside.ip(line)
    t.inside.run("bridge fdb append 00:00:00:00:00:00 dev vxlan9 dst 192.0.2.78")
    t.ctl("create bridge-domain 20 bd-tag customers")
    t.router.script("set ip table 10 when-down withdraw", "set ip6 table 10 when-down withdraw", "set route-preference kernel 30",
                    "ip route add 10.77.0.0/16 table 10 via 203.0.113.77", "ip6 route add 2001:db8:77::/48 table 10 via 2001:db8:ff::7")
    t.ctl("configuration save comment 'before the tunnels'")
    t.ctl("create gre tunnel src 10.0.1.1 dst 192.0.2.77 key 7 sequence ttl copy")
    t.ctl("create vxlan tunnel src 10.0.1.1 dst 192.0.2.77 vni 7 ttl copy")
    t.router.script("create bond mode lacp load-balance l34", "create host-interface name strand", "bond add BondEthernet0 host-strand",
                    "set interface state BondEthernet0 up", "set interface state host-strand up")
    t.ctl("create memif socket id 1 filename @memif")
    t.ctl("create interface memif socket-id 1")
    t.ctl("create vhost-user socket @vhost0 server")
    t.ctl("set interface span left.400 destination wire")
    t.ctl("set interface handoff left workers 0")
    t.ctl("set bridge-domain span 20 destination wire rx")
    t.ctl("trace add af-packet-input 50")
    t.ctl(f"pcap trace rx tx drop max 100 intfc left file {tmp_path}/capture.pcap")
    # Through the router, for nobody, and for an address without a neighbor.
    t.left.send(through4(a, b)[0], through6(a, b)[0], into(a) / udp4(a.host, "192.0.2.1"), into(a) / udp4(a.host, "203.0.113.1"),
                into(a) / udp4(a.host, "10.0.2.99"), into(a) / udp4("198.51.100.9", b.host))
    # A neighbor that is learnt, of each family, and a reply whose path is narrow.
    t.left.send(Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:01:09") / ARP(hwsrc="02:00:00:00:01:09", psrc="10.0.1.9", pdst=a.ip))
    quote = bytes(IP(src=a.ip, dst=a.host, len=1228) / ICMP(type=0) / bytes(1200))
    t.left.send(into(a) / IP(src=a.host, dst=a.ip) / ICMP(type=8) / bytes(1200))
    t.left.wait(lambda p: ICMP in p and p[ICMP].type == 0)
    t.left.send(into(a) / IP(src="10.0.1.9", dst=a.ip) / ICMP(type=3, code=4, nexthopmtu=600) / Raw(quote[:548]))
    # Fragments of which some are missing, for full reassembly and for virtual.
    for port, wire, to in [(a, t.left, b), (b, t.right, a)]:
        first, second = fragment(udp4(port.host, to.host, size=1000), fragsize=504)
        half = IPv6(src=port.host6, dst=to.host6) / IPv6ExtHdrFragment(nh=17, offset=8, m=1, id=5) / Raw(bytes(64))
        wire.send(into(port) / second, into(port) / half)
    # A station in the bridge domain, labels, and a frame for the other side of a cross-connect.
    t.left.send(Ether(dst="02:00:00:00:00:99", src="02:00:00:00:00:55") / Dot1Q(vlan=100) / IP(dst="10.10.0.9") / UDP(),
                Ether(dst="02:00:00:00:00:99", src="02:00:00:00:00:56") / Dot1Q(vlan=300) / IP(dst="10.10.0.9") / UDP(),
                into(a) / MPLS(label=100, s=1, ttl=64) / udp4(a.host, b.host),
                into(a) / MPLS(label=999, s=1, ttl=64) / udp4(a.host, b.host))
    wait_for("Linux's bridge is there", lambda: [d["ends"] for b in t.router.json("show lcp bridges")["bridges"] if b["bvi"] for d in b["vxlan"]])
    wait_for("the path MTU is learnt", lambda: t.router.json("show ip pmtu"))
    wait_for("the station is learnt", lambda: t.router.json("show l2fib")["learned"])
    wait_for("the stream has ended", lambda: t.router.json("show packet-generator")[0]["packets"] == 10)
    return t


def answered(t, line):
    """What a command answers while host 10.0.1.2 answers echo requests and refuses UDP, and says that 10.0.1.8 is unreachable."""
    done = {}
    thread = threading.Thread(target=lambda: done.update(answer=t.router.ctl_raw(line, json_too=True).stdout))
    thread.start()
    while thread.is_alive():
        frame = t.left.recv(timeout=0.05)
        packet = Ether(frame).getlayer(IP) if frame else None
        if packet is None or not (UDP in packet or ICMP in packet):
            continue
        if packet.dst == "10.0.1.8":
            reply = ICMP(type=3, code=1) / Raw(bytes(packet)[:64])
        elif UDP in packet:
            reply = ICMP(type=3, code=3) / Raw(bytes(packet)[:64])
        else:
            reply = ICMP(type=0, id=packet[ICMP].id, seq=packet[ICMP].seq) / packet[ICMP].payload
        t.left.send(into(t.ports["left"]) / IP(src="10.0.1.2", dst=packet.src) / reply)
    thread.join()
    return json.loads(done["answer"])


def test_every_command_that_shows_something_is_documented():
    sections, known = set(document()), commands()
    assert not {c for c in known if c.startswith("show ")} - sections
    assert not {s for s in sections - {"next-hop group"} if not any(s == c or s.startswith(c + " ") for c in known)}


def test_answers_are_as_the_document_says(busy, tmp_path):
    sections = document()
    lines = {name: [name] for name in sections if name != "next-hop group"}
    lines.update(COMMANDS)
    assert set(lines) <= set(sections)
    wrong = []
    wait_for("load of a second", lambda: busy.router.json("show load")["workers"][0]["busy"]["1s"] is not None)
    for name, rows in lines.items():
        body, fields = sections[name]
        known = {} if name in OTHERWISE else kinds(sections, name)
        assert fields or name in OTHERWISE, name
        seen = set()
        for line in rows:
            line = line.format(tmp_path)
            answer = answered(busy, line) if line.startswith(("ping", "traceroute")) else busy.router.json(line)
            if name in OTHERWISE:
                # Nothing has died, and the next start has the same section `quiver`.
                assert isinstance(answer, OTHERWISE[name]) and bool(answer) == (name not in EMPTY), line
                continue
            way = body.split(".")[0]
            assert way.startswith("An object") if isinstance(answer, dict) else "a list" in way.lower(), (line, way)
            check(answer, known, line, seen, wrong)
        unseen = UNSEEN.get(name, set())
        wrong += [f"{name}: {path} has never come" for path in sorted(set(known) - seen - unseen)]
        wrong += [f"{name}: {path} is listed as unseen, and not documented" for path in sorted(unseen - set(known))]
    assert not wrong, "\n".join(wrong)
