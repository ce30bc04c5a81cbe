"""Linux hosts in namespaces, for the labs."""

from .netns import Netns, run


def veth(ns_a, a, ns_b, b, mtu=None, mac_a=None, mac_b=None, queues=None):
    """A cable between device `a` in `ns_a` and device `b` in `ns_b`; both ends up, with a queue of either kind, and at most `queues`."""
    most = f"numrxqueues {queues} numtxqueues {queues}" if queues else ""
    run(f"ip link add {a} {most} netns {ns_a.name} type veth peer name {b} {most} netns {ns_b.name}")
    for ns, device, mac in ((ns_a, a, mac_a), (ns_b, b, mac_b)):
        if queues:
            ns.run(f"ethtool -L {device} rx 1 tx 1")
        if mac:
            ns.ip(f"link set {device} address {mac}")
        if mtu:
            ns.ip(f"link set {device} mtu {mtu}")
        ns.ip(f"link set {device} up")


class Host(Netns):
    """A namespace with `eth0`, addresses, and a default route per family; all offloads as Linux has them."""

    def __init__(self, name, addresses, gateways=()):
        super().__init__(name, quiet=False)
        self.addresses, self.gateways = addresses, gateways

    def configure(self, device="eth0"):
        """Gives the addresses to `device` once it is here."""
        for address in self.addresses:
            family = "-6" if ":" in address else "-4"
            self.ip(f"{family} address add {address} dev {device}" + (" nodad" if family == "-6" else ""))
        for gateway in self.gateways:
            self.ip(f"{'-6' if ':' in gateway else '-4'} route add default via {gateway} dev {device}")
        return self

    def ping(self, to, count=5, size=56, interval=0.02, extra="", check=True):
        """Pings and returns (sent, received)."""
        done = self.run(f"ping -n -q -c {count} -i {interval} -W 2 -s {size} {extra} {to}", check=False)
        line = next((x for x in done.stdout.splitlines() if "packets transmitted" in x), "")
        words = line.replace(",", "").split()
        assert words, f"ping {to}: {done.stdout}{done.stderr}"
        sent, received = int(words[0]), int(words[3])
        if check:
            assert sent == received == count, f"{self.name}: ping {to}: {done.stdout}{done.stderr}"
        return sent, received
