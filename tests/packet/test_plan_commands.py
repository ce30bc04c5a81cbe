"""The commands that a plan names do what its steps do: on another router they lead to the same configuration."""

import json

from harness import BINARY, Netns, Router, run, wait_for

# What no command does: the order in which a document names things is the only thing that it changes.
WITHOUT = ("order of ",)


def document(folder):
    """Something of every kind that a document makes, but not more routes and labels in a run than a plan names."""
    return f"""
devices:
  ge0: {{rx-ring: {{slots: 1024}}}}
  cap0: {{driver: pcap, pcap: {{write: {folder}/out.pcap}}}}
  cap1: {{driver: pcap, pcap: {{read: {folder}/in.pcap, rate: 1000, loop: true}}}}
taps:
  tap0: {{host: {{name: lan0, mac: "02:00:00:00:03:03", mtu: 1400, ip4-address: 10.3.3.2/24, ip4-gateway: 10.3.3.1}}, rx-ring-size: 512}}
  tap1: {{host: {{name: lan1}}}}
loopbacks:
  loop0: {{addresses: [10.255.0.1/32], mtu: 9000, description: "two words", lcp: lo0}}
  loop1: {{addresses: [10.10.0.1/24]}}
memifs:
  memif1/0: {{socket: "@plan", role: slave, secret: "s3 cret", rx-queues: 2, ring-size: 512}}
  memif1/1: {{socket: "@plan", role: slave, mode: ip}}
  memif2/0: {{socket: {folder}/m2.sock, role: slave}}
interfaces:
  ge0:
    addresses: [192.0.2.1/24]
    mpls: true
    sub-interfaces: {{100: {{addresses: [198.51.100.1/24]}}, 200: {{}}}}
  cap0: {{description: kept}}
  tap0: {{mtu: 1400}}
  memif1/0: {{addresses: [10.4.4.1/24]}}
  mpls-tunnel1: {{l2xc: cap1, mac: "02:00:00:00:00:71"}}
  cap1: {{l2xc: mpls-tunnel1}}
bridgedomains:
  bd10: {{bvi: loop1, interfaces: [ge0.200, cap0]}}
tables: {{7: {{}}}}
l3:
  interfaces:
    ge0: {{urpf: {{ip4: strict, ip6: {{tx: loose}}}}, groups: [224.0.0.5]}}
    memif1/0: {{table: 7}}
span:
  - {{source: tap0, destination: tap1, direction: rx}}
mpls:
  local-labels: [100 eos via ip4-lookup-in-table 0]
  tunnels:
    mpls-tunnel0: {{via: [192.0.2.2 ge0 out-labels 100, 192.0.2.3 ge0 out-labels 101]}}
    mpls-tunnel1: {{l2-only: true, control-word: true, via: 192.0.2.2 ge0 out-labels 300}}
    mpls-tunnel2: {{}}
neighbors:
  - {{interface: ge0, address: 192.0.2.2, mac: "02:00:00:00:00:02"}}
routes:
  - 10.50.0.0/16 via 192.0.2.2
  - 10.51.0.0/16 via mpls-tunnel0
"""


def settings(router):
    """The section of a router by itself."""
    return f"quiver: {{buffers: {{count: 4096}}, sockets: {{ctl: {router.socket}}}}}\n"


def start(name):
    ns = Netns(name)
    ns.ip("link add ge0 type veth peer name far0")
    return Router(ns, {"quiver": {"buffers": {"count": 4096}}})


def running(router):
    return router.ctl("show configuration").split("devices:", 1)[1]


def plan(router, file, *more):
    return json.loads(run([BINARY, "plan", "-s", router.socket, "--json", *more, str(file)]).stdout)["steps"]


def test_commands_of_a_plan_lead_where_its_steps_lead(tmp_path):
    from scapy.all import Ether, wrpcap

    wrpcap(str(tmp_path / "in.pcap"), [Ether() / b"x" * 60])
    one, other = start("plan-one"), start("plan-other")
    try:
        file = tmp_path / "all.yaml"
        file.write_text(settings(one) + document(tmp_path))
        steps = plan(one, file)
        without = [s["what"] for s in steps if not s["commands"] and not s["what"].startswith(WITHOUT)]
        assert not without, without
        commands = [c for s in steps for c in s["commands"]]
        run([BINARY, "apply", "-s", one.socket, str(file)])
        # Files, sockets and Linux addresses are this machine's: the other one has its own namespace.
        other.script(*commands)
        assert running(one) == running(other)
        assert "secret: s3 cret" in running(other)
        # What a change takes, and what it takes to go back.
        changed = tmp_path / "changed.yaml"
        text = file.read_text().replace("s3 cret", "another").replace("out-labels 300", "out-labels 301").replace("rate: 1000", "rate: 2000")
        text = text.replace("direction: rx", "direction: both").replace("tap1: {host: {name: lan1}}", "tap1: {host: {name: lan1}, rx-ring-size: 128}").replace("urpf: {ip4: strict, ", "urpf: {ip4: loose, ")
        text = text.replace("lcp: lo0", "lcp: lo1").replace("mpls-tunnel2: {}", "mpls-tunnel2: {via: 192.0.2.9 ge0 out-labels 700}")
        changed.write_text(text)
        for target in (changed, file, None):
            if target is None:
                target = tmp_path / "nothing.yaml"
                target.write_text(settings(one))
            steps = plan(one, target, "--exact")
            without = [s["what"] for s in steps if not s["commands"] and not s["what"].startswith(WITHOUT)]
            assert not without, (target, without)
            run([BINARY, "apply", "-s", one.socket, "--exact", str(target)])
            other.script(*[c for s in steps for c in s["commands"]])
            # What asks Linux and what becomes of several routes of a prefix comes a moment later.
            shown = lambda r: r.ctl("show configuration").split("\n", 5)[5:]
            wait_for(f"both run {target}", lambda: shown(one) == shown(other))
    finally:
        one.stop()
        other.stop()
