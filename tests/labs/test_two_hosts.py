"""Two Linux hosts and the router between them: what people try first."""

import hashlib
import subprocess
import threading
import time

import pytest
from harness import BINARY, wait_for
from harness.router import REPO
from tools import bad_checksums, capture, hops, iperf, iperf_server, tcp, tried, udp


def test_ping_all_sizes_both_ways(two_hosts):
    """Every ping is answered from the first on, although nobody knows anybody's MAC address."""
    a, b = two_hosts.a, two_hosts.b
    for host, to in ((a, "10.0.2.2"), (b, "10.0.1.2"), (a, "2001:db8:2::2"), (b, "2001:db8:1::2"),
                     (a, "10.0.1.1"), (a, "10.0.2.1"), (a, "2001:db8:1::1"), (a, "2001:db8:2::1")):
        host.ping(to, count=10)
    for size in (0, 1, 1472):
        a.ping("10.0.2.2", size=size)
    a.ping("2001:db8:2::2", size=1452)
    # The router puts fragments together, and answers in fragments.
    for to in ("10.0.1.1", "10.0.2.1", "2001:db8:1::1", "2001:db8:2::1"):
        for size in (1473, 20000, 65000):
            a.ping(to, size=size)
    # Fragments of the host pass as they are, in both families.
    a.ping("10.0.2.2", size=8000)
    a.ping("2001:db8:2::2", size=8000)


def test_traceroute_shows_the_router(two_hosts):
    a = two_hosts.a
    assert hops(a, "10.0.2.2") == ["10.0.1.1", "10.0.2.2"]
    assert hops(a, "10.0.2.2", "-I") == ["10.0.1.1", "10.0.2.2"]
    assert hops(a, "2001:db8:2::2", "-6") == ["2001:db8:1::1", "2001:db8:2::2"]
    assert hops(a, "10.0.2.2", "-T", "-p", "80") == ["10.0.1.1", "10.0.2.2"]


def test_unreachables_are_understood_by_linux(two_hosts):
    a = two_hosts.a
    for to, word in (("10.77.0.1", "Net Unreachable"), ("2001:db8:77::1", "No route")):
        done = a.run(f"ping -n -c 1 -W 2 {to}", check=False)
        assert done.returncode == 1 and word in done.stdout, done.stdout
    # Nobody there: after three seconds of ARP, host unreachable.
    done = a.run("ping -n -c 1 -W 6 10.0.2.99", check=False)
    assert "Host Unreachable" in done.stdout, done.stdout


WAYS = pytest.mark.parametrize("to, back", [("10.0.2.2", False), ("10.0.2.2", True), ("2001:db8:2::2", False),
                                            ("2001:db8:2::2", True)], ids=["ip4", "ip4 back", "ip6", "ip6 back"])


@WAYS
def test_tcp_with_default_offloads(two_hosts, to, back):
    """Super-frames and partial checksums come in from the hosts. TCP runs without a storm of retransmissions, and the
    receivers find no wrong checksum."""
    a, b = two_hosts.a, two_hosts.b

    def wrong():
        lines = [h.run("nstat -asz TcpInCsumErrors TcpInErrs UdpInCsumErrors").stdout.splitlines()[1:] for h in (a, b)]
        return [line.split()[:2] for host in lines for line in host]

    before = wrong()
    with iperf_server(b):
        tcp(a, to, *(["-R"] if back else []), at_least=25e6)
    assert wrong() == before
    errors = two_hosts.r.errors()
    assert not [e for e in errors if "checksum" in e or "malformed" in e or "offload" in e], errors


def restarted(two_hosts, offload):
    """The router with `offload` on both devices."""
    two_hosts.r.stop()
    two_hosts.routers.remove(two_hosts.r)
    two_hosts.r = two_hosts.router(two_hosts.inside, {
        "interfaces": {"left": {"addresses": ["10.0.1.1/24", "2001:db8:1::1/64"]},
                       "right": {"addresses": ["10.0.2.1/24", "2001:db8:2::1/64"]}},
        "devices": {"left": {"offload": offload}, "right": {"offload": offload}}})


def received(two_hosts, to, back):
    """What tcpdump says of twenty megabytes of TCP on the host that receives them: packets with wrong checksums, the number
    of packets, the longest frame."""
    a, b = two_hosts.a, two_hosts.b
    sender, receiver = (b, a) if back else (a, b)
    source = next(x for x in sender.addresses if (":" in x) == (":" in to)).split("/")[0]
    with iperf_server(b), capture(receiver, "eth0", f"tcp and port 5201 and src host {source}") as file:
        assert iperf(a, to, "-n", "20M", *(["-R"] if back else []))["sum_sent"]["bytes"] >= 20e6
    return bad_checksums(file)


@WAYS
@pytest.mark.parametrize("who", ["quiver", "linux"])
def test_no_bad_checksum_in_a_capture(two_hosts, who, to, back):
    """The host that receives gets whole checksums and frames of the MTU's size, as the router is without any setting; and
    likewise when it leaves the work to the kernel of a device without offloads."""
    if who == "linux":
        restarted(two_hosts, True)
        for device in ("left", "right"):
            two_hosts.inside.run(f"ethtool -K {device} tx off")
    bad, packets, longest = received(two_hosts, to, back)
    assert packets > 1000 and not bad, bad[:5]
    assert longest <= 1514, f"a frame of {longest} bytes on a link with MTU 1500"
    counts = {i: two_hosts.r.interface(i) for i in ("left", "right")}
    assert not [c for c in counts.values() if c["device-drops"]["packets"]], counts


@WAYS
def test_offloads_pass_where_they_are_asked_for(two_hosts, to, back):
    """`offload: on`: super-frames stay whole all along the way, and Linux completes or ignores checksums as it likes."""
    restarted(two_hosts, True)
    _, packets, longest = received(two_hosts, to, back)
    assert packets > 100 and longest > 20000, longest
    with iperf_server(two_hosts.b):
        tcp(two_hosts.a, to, *(["-R"] if back else []), at_least=25e6)


def out_of_order(host):
    """Segments that TCP of a host has got before one that belongs in front of them."""
    names, values = (line.split() for line in host.run("cat /proc/net/netstat").stdout.splitlines() if line.startswith("TcpExt:"))
    return int(values[names.index("TCPOFOQueue")])


@WAYS
def test_nothing_is_lost_and_a_flow_stays_in_order(two_hosts, to, back):
    """Where Linux itself keeps flows in order (without receive packet steering a veth spreads a flow over the CPUs that
    send it), so does the router, and it loses nothing. When others keep the router or Linux from running for so long that
    there is no room for more frames, these are counted, and it is tried again."""
    a, b, r = two_hosts.a, two_hosts.b, two_hosts.r
    for host, devices in ((two_hosts.inside, ("left", "right")), (a, ("eth0",)), (b, ("eth0",))):
        for device in devices:
            host.run(["sh", "-c", f"echo 1 > /sys/class/net/{device}/queues/rx-0/rps_cpus"])
    receiver = a if back else b
    counted = lambda: (sum(r.interface(i)["device-drops"]["packets"] for i in ("left", "right"))
                       + r.errors().get("tx-queue-full", 0))

    def check():
        drops, before = counted(), out_of_order(receiver)
        with iperf_server(b):
            end = iperf(a, to, *(["-R"] if back else []))
        assert counted() == drops, r.ctl("show interface")
        assert end["sum_received"]["bytes"] > 10e6
        assert out_of_order(receiver) == before, end["sum_sent"]

    tried(check, times=5)


def test_tcp_both_ways_at_once(two_hosts):
    def check():
        end = iperf(two_hosts.a, "10.0.2.2", "--bidir", "-P", "4")
        assert end["sum_received"]["bytes"] > 10e6
        both = end.get("sum_received_bidir_reverse", {}).get("bytes", 0)
        assert both > 10e6, end.keys()

    with iperf_server(two_hosts.b):
        tried(check)


@pytest.mark.parametrize("device", ["tx-checksumming", "gso", "tso", "gro", "all"])
def test_tcp_without_one_offload(two_hosts, device):
    """Whatever the hosts switch off on their side."""
    a, b = two_hosts.a, two_hosts.b
    features = {"tx-checksumming": "tx", "all": "tx"}.get(device, device)
    for host in (a, b):
        host.run(f"ethtool -K eth0 {features} off")
        if device == "all":
            host.run("ethtool -K eth0 gso off gro off tso off rx off", check=False)
    with iperf_server(b):
        tcp(a, "10.0.2.2", seconds=1)


def test_udp(two_hosts):
    with iperf_server(two_hosts.b):
        for to in ("10.0.2.2", "2001:db8:2::2"):
            udp(two_hosts.a, to, "-b", "50M", "-l", "1200", seconds=2)
        # Datagrams larger than the MTU: fragments of the host.
        udp(two_hosts.a, "10.0.2.2", "-b", "20M", "-l", "8000", seconds=1)


def test_udp_super_frames(two_hosts):
    """UDP segmentation offload: a sender hands over 60 datagrams as one frame."""
    a, b = two_hosts.a, two_hosts.b
    # So that host a knows the router: what Linux holds for an unresolved neighbour is less than ten such frames.
    a.ping("10.0.2.2", count=1)
    receive = (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE: room for all of them\ns.bind(('10.0.2.2', 9999))\ns.settimeout(5)\n"
        "print('ready', flush=True)\ngot = [s.recv(2000) for _ in range(400)]\n"
        "assert all(len(g) == 1000 and g == bytes([g[0]]) * 1000 for g in got), [len(g) for g in got]\nprint('whole', flush=True)\n")
    send = (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(17, 103, 1000)\n"
        "[s.sendto(b''.join(bytes([i]) * 1000 for i in range(40)), ('10.0.2.2', 9999)) for _ in range(10)]\n")
    p = b.start(["/usr/bin/python3", "-c", receive])
    assert p.stdout.readline().strip() == "ready"
    a.run(["/usr/bin/python3", "-c", send])
    said = p.stdout.readline().strip()
    if said != "whole":
        raise AssertionError("\n".join([said, p.stdout.read(), two_hosts.r.ctl("show interface"), two_hosts.r.ctl("show errors"),
                                        two_hosts.r.ctl("show hardware-interfaces"), b.run("nstat -as").stdout]))
    p.wait(timeout=5)


def test_a_file_arrives_whole(two_hosts):
    """Ten megabytes over TCP, compared by hash."""
    a, b = two_hosts.a, two_hosts.b
    data = bytes(range(256)) * 40960
    receive = ("import socket,hashlib\ns=socket.create_server(('10.0.2.2',9998))\nprint('ready',flush=True)\nc,_=s.accept()\nh=hashlib.sha256()\n"
               "while (x:=c.recv(65536)): h.update(x)\nprint(h.hexdigest(),flush=True)\n")
    p = b.start(["/usr/bin/python3", "-c", receive])
    assert p.stdout.readline().strip() == "ready"
    done = subprocess.run(["ip", "netns", "exec", a.name, "/usr/bin/python3", "-c",
                           "import socket,sys\nc=socket.create_connection(('10.0.2.2',9998))\nc.sendall(sys.stdin.buffer.read())"],
                          input=data, timeout=60)
    assert done.returncode == 0
    assert p.stdout.readline().strip() == hashlib.sha256(data).hexdigest()
    p.wait(timeout=5)


@pytest.mark.parametrize("who", ["router", "hosts"])
def test_neighbours_forgotten_while_traffic_runs(two_hosts, who):
    """`ip neighbor del` on the router, again and again: no ping is lost. `ip neigh flush` on the hosts: Linux throws away
    the packet that waits in its own table at that moment, and no other is lost."""
    a, b, r = two_hosts.a, two_hosts.b, two_hosts.r
    a.ping("10.0.2.2", count=1)
    a.ping("2001:db8:2::2", count=1)
    stop, rounds = threading.Event(), 0

    def forget():
        nonlocal rounds
        while not stop.is_set():
            if who == "hosts":
                for host in (a, b):
                    host.ip("neigh flush dev eth0")
            else:
                for interface, address in (("left", "10.0.1.2"), ("right", "10.0.2.2"), ("right", "2001:db8:2::2")):
                    r.ctl_raw(f"ip neighbor del {interface} {address}")
            rounds += 1
            time.sleep(0.02 if who == "hosts" else 0)

    thread = threading.Thread(target=forget)
    thread.start()
    try:
        for to in ("10.0.2.2", "2001:db8:2::2"):
            if who == "hosts":
                sent, received = a.ping(to, count=150, interval=0.01, check=False)
                assert sent - received <= 15, f"{sent - received} of {sent} pings lost"
                continue
            # As fast as answers come: many packets are between the lookup and the adjacency when it is taken out.
            floods = [a.start(f"ping -n -q -f -c 20000 {to}") for _ in range(3)]
            said = [p.communicate(timeout=60)[0] for p in floods]
            assert all(" 0% packet loss" in text for text in said), "\n".join([*said, r.ctl("show errors")])
    finally:
        stop.set()
        thread.join()
    assert rounds > 10
    a.ping("10.0.2.2")
    a.ping("2001:db8:2::2")


def test_routes_change_while_traffic_runs(two_hosts):
    """Another path, another prefix length, two paths, a forgotten neighbour, again and again: no ping is lost."""
    a, b, r = two_hosts.a, two_hosts.b, two_hosts.r
    b.ip("addr add 10.0.2.3/24 dev eth0")
    b.ip("addr add 10.9.0.1/32 dev eth0")
    changes = ["ip route add 10.9.0.0/16 via 10.0.2.3 right", "ip route add 10.9.0.0/24 via 10.0.2.2 right",
               "ip route add 10.9.0.0/16 via 10.0.2.2 right via 10.0.2.3 right", "ip route del 10.9.0.0/24",
               "ip neighbor del right 10.0.2.3", "ip route add 10.9.0.1/32 via 10.0.2.2", "ip neighbor del right 10.0.2.2",
               "ip route del 10.9.0.1/32", "ip route add 10.9.0.0/16 via 10.0.2.2 right"]
    r.ctl(changes[-1])
    a.ping("10.9.0.1", count=1)
    stop, rounds = threading.Event(), 0

    def change():
        nonlocal rounds
        while not stop.is_set():
            for words in changes:
                r.ctl_raw(words)
            rounds += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        floods = [a.start("ping -n -q -f -c 20000 10.9.0.1") for _ in range(3)]
        said = [p.communicate(timeout=60)[0] for p in floods]
    finally:
        stop.set()
        thread.join()
    assert all(" 0% packet loss" in text for text in said), "\n".join([*said, r.ctl("show errors")])
    assert rounds > 3


def test_restart_in_the_middle_of_a_ping(two_hosts):
    """The router is killed and started again: a ping that runs on loses less than a second."""
    a, r = two_hosts.a, two_hosts.r
    a.ping("10.0.2.2", count=2)
    ping = a.start("ping -n -q -i 0.01 -c 400 10.0.2.2")
    wait_for("the ping runs", lambda: r.interface("left")["rx"]["packets"] > 50)
    r.kill()
    r.start()
    text = ping.communicate(timeout=30)[0]
    sent, received = (int(x.split()[0]) for x in text.split("---\n")[1].split(", ")[:2])
    assert sent == 400 and sent - received < 100, text


def test_the_commands_of_the_readme_make_a_network_that_works(tmp_path):
    """What a newcomer types: the first shell block of "A first configuration", then the router, then a ping. In a mount and
    network namespace of its own, so that names like `a` and `left` meet nobody else's."""
    with open(f"{REPO}/README.md") as f:
        commands = f.read().split("## A first configuration")[1].split("```sh\n")[1].split("```")[0]
    socket = tmp_path / "ctl.sock"
    config = tmp_path / "router.yaml"
    with open(f"{REPO}/examples/two-hosts.yaml") as f:
        config.write_text(f.read() + f"quiver: {{sockets: {{ctl: {socket}}}}}\n")
    script = f"""set -e
mkdir -p /run/netns
mount -t tmpfs none /run/netns
ip link set lo up
{commands}
{BINARY} run -c {config} > {tmp_path}/log 2>&1 &
router=$!
trap 'status=$?; kill $router; wait $router || true; ip netns del a; ip netns del b; exit $status' EXIT
for _ in $(seq 200); do
    {BINARY} ctl -s {socket} show version > /dev/null 2>&1 && break
    sleep 0.05
done
ip netns exec a ping -n -c 3 -i 0.2 -W 5 10.0.2.2
"""
    done = subprocess.run(["unshare", "--net", "--mount", "bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and " 0% packet loss" in done.stdout, done.stdout + done.stderr
