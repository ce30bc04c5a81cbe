"""A Linux kernel of its own in QEMU, for what the kernel of this machine may lack: a virtual machine with a shell on its
serial line and network cards that end as TAP devices in namespaces."""

import fcntl
import glob
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import typing

from .netns import Netns, run

QEMU = "qemu-system-x86_64"
BUSYBOX = "/bin/busybox"
REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Where scripts/setup puts Debian's kernel package, unpacked.
KERNELS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPO, "target")), "guest-kernel")

TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE = 0x400454CA, 0x0002, 0x1000, 0x4000, 0x0100
PROMPT = b"guest-status:"

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for m in $(cat /modules.order); do insmod /modules/$m || echo "no module $m"; done
ip() { /sbin/ip "$@"; }  # not busybox's own, which knows nothing of MPLS
stty -echo
echo guest-status: 0
while read -r line; do eval "$line"; echo guest-status: $?; done
poweroff -f
"""


def lacks():
    """Why no guest can run here; None when one can."""
    if not shutil.which(QEMU):
        return f"no {QEMU}: the package qemu-system-x86 is not installed"
    if not os.path.exists(BUSYBOX):
        return f"no {BUSYBOX}: the package busybox-static is not installed"
    if not kernel():
        return f"no kernel in {KERNELS}: scripts/setup could not fetch Debian's package linux-image-cloud-amd64"
    return None


def kernel():
    """The newest kernel image that scripts/setup has unpacked, else None."""
    return max(glob.glob(os.path.join(KERNELS, "boot", "vmlinuz-*")), key=os.path.getmtime, default=None)


def _modules(wanted):
    """The files of these modules and of those they need, in order of loading."""
    release = os.path.basename(kernel()).removeprefix("vmlinuz-")
    root = os.path.join(KERNELS, "lib", "modules", release)
    files = {os.path.basename(f)[:-3].replace("-", "_"): f for f in glob.glob(f"{root}/kernel/**/*.ko", recursive=True)}
    ordered = []

    def add(name):
        path = files.get(name)
        if path is None or path in ordered:
            return  # built into the kernel, or there already
        with open(path, "rb") as f:
            depends = re.search(rb"\0depends=([^\0]*)\0", f.read())
        for other in depends.group(1).decode().split(",") if depends else ():
            add(other.replace("-", "_"))
        ordered.append(path)

    for name in wanted:
        add(name)
    return ordered


def _cpio(entries):
    """An archive in cpio's "newc" format: (name, mode, bytes) each."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        raw = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        out += b"070701" + b"".join(b"%08X" % f for f in fields) + raw
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def _initrd(modules, programs):
    """busybox, this machine's ip(8) and other programs with their libraries, and the modules."""
    ip = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
    libraries = {lib for program in (ip, *programs) for lib in re.findall(r"(/\S+) \(0x", run(["ldd", program]).stdout)}
    paths = _modules(modules)
    files = {"init": INIT.encode(), "modules.order": "\n".join(os.path.basename(p) for p in paths).encode()}
    for source, name in [(BUSYBOX, "bin/busybox"), (ip, "sbin/ip"), *((p, f"modules/{os.path.basename(p)}") for p in paths),
                         *((file, file.lstrip("/")) for file in (*libraries, *programs))]:
        with open(source, "rb") as f:
            files[name] = f.read()
    folders = {"dev", "etc"}
    for name in files:
        while name := os.path.dirname(name):
            folders.add(name)
    entries = [(f, 0o040755, b"") for f in sorted(folders)]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    # As it is: the guest has an emulated processor to unpack it with.
    return _cpio(entries)


def _tap(netns, name, queues=1, more=0):
    """A TAP device in a namespace, with these flags more; the open ends of it."""
    fds = []
    with netns.entered():
        for _ in range(queues):
            fds.append(os.open("/dev/net/tun", os.O_RDWR))
            several = IFF_MULTI_QUEUE if queues > 1 else 0
            fcntl.ioctl(fds[-1], TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI | several | more))
    netns.ip(f"link set {name} up")
    return fds


class Card(typing.NamedTuple):
    """A network card behind a port of its own, from which it can be pulled, whose wire is a TAP device in a namespace."""

    netns: Netns
    device: str
    model: str = "virtio-net-pci"
    options: str = ""
    queues: int = 1


class Guest:
    """A running guest. `links` are (namespace, device): each becomes a TAP device there, and eth0, eth1, ... in the guest. `programs` are files of
    this machine that it has, where they are here, with their libraries. `vhosts` are sockets of vhost-user back-ends, (path, MAC address): cards
    with two pairs of queues, behind those of `links`. `cards` come with an IOMMU, and without a name in the guest: who wants them there loads their
    drivers. `more` are words for its kernel."""

    def __init__(self, links, modules=(), memory_mib=192, programs=(), vhosts=(), cards=(), more=""):
        self.dir = tempfile.mkdtemp(prefix="quiver-guest-")
        self.seen, self.cards = b"", cards
        initrd = os.path.join(self.dir, "initrd")
        with open(initrd, "wb") as f:
            virtio = ["virtio_pci", "virtio_net"] if links or vhosts else []
            f.write(_initrd([*virtio, *modules], programs))
        words = [QEMU, "-accel", "tcg", "-cpu", "max", "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-no-reboot",
                 "-display", "none", "-serial", "stdio", "-kernel", kernel(), "-initrd", initrd,
                 "-qmp", f"unix:{self.dir}/qmp,server=on,wait=off",
                 "-append", f"console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on tsc=unstable no_timer_check {more}"]
        fds = []
        for n, (netns, device) in enumerate(links):
            fds += _tap(netns, device)
            words += ["-netdev", f"tap,id=n{n},fd={fds[-1]}",
                      "-device", f"virtio-net-pci,netdev=n{n},mac=02:00:00:00:aa:{n:02x},speed=1000,duplex=full,romfile="]
        if vhosts:
            words += ["-object", f"memory-backend-memfd,id=mem,size={memory_mib}M,share=on", "-machine", "memory-backend=mem"]
        for n, (path, mac) in enumerate(vhosts):
            # Without MSI-X, at whose vectors QEMU 7.2 ends (SIGSEGV) where it has vhost-user without KVM.
            words += ["-chardev", f"socket,id=c{n},path={path},reconnect=1", "-netdev", f"vhost-user,id=v{n},chardev=c{n},queues=2",
                      "-device", f"virtio-net-pci,netdev=v{n},mac={mac},mq=on,vectors=0,romfile="]
        if cards:
            # Addresses of 48 bits, as processes have them. Each function is alone in its group behind a port of its own.
            words += ["-machine", "q35", "-device", "intel-iommu,intremap=on,aw-bits=48"]
        for n, card in enumerate(cards):
            ends = _tap(card.netns, card.device, card.queues, IFF_VNET_HDR)
            fds += ends
            words += ["-netdev", f"tap,id=c{n},fds={':'.join(map(str, ends))}", "-device", f"pcie-root-port,id=p{n},chassis={n + 1},slot={n + 1}",
                      "-device", self._card(n, card)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        pass_fds=fds)
        for fd in fds:
            os.close(fd)
        try:
            self._answer(120)
        except BaseException:
            self.stop()
            raise

    def _answer(self, timeout):
        """What the guest says until its shell waits for the next line: (status, text)."""
        deadline = time.monotonic() + timeout
        while True:
            done = re.search(PROMPT + rb" (\d+)\r?\n", self.seen)
            if done:
                text, self.seen = self.seen[:done.start()], self.seen[done.end():]
                return int(done.group(1)), text.decode(errors="replace").replace("\r", "")
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([self.process.stdout], [], [], rest)[0]:
                raise AssertionError(f"the guest said nothing more for {timeout} s:\n{self.seen.decode(errors='replace')[-3000:]}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"the guest ended, status {self.process.wait(5)}:\n{self.seen.decode(errors='replace')[-3000:]}")
            self.seen += more

    def run(self, line, check=True, timeout=20):
        """Runs a line of shell in the guest; its text."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        status, text = self._answer(timeout)
        if check and status != 0:
            raise AssertionError(f"the guest: {line}: status {status}\n{text}")
        return text

    @staticmethod
    def _card(n, card):
        return f"{card.model},id=d{n},netdev=c{n},bus=p{n},mac=02:00:00:00:cc:{n:02x},romfile={card.options}"

    def qemu(self, command, **arguments):
        """Has QEMU do something (QMP)."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(os.path.join(self.dir, "qmp"))
            lines = s.makefile("rw")
            for what in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                lines.write(json.dumps(what) + "\n")
                lines.flush()
                while not {"return", "error"} & (answer := json.loads(lines.readline() or '{"error": "it ended"}')).keys():
                    pass
                assert "error" not in answer, f"QEMU: {command}: {answer['error']}"
            return answer["return"]

    def pull(self, n):
        """Takes a card away, once the guest lets go of it."""
        self.qemu("device_del", id=f"d{n}")

    def plug(self, n):
        """Puts it back."""
        said = self.qemu("human-monitor-command", **{"command-line": f"device_add {self._card(n, self.cards[n])}"})
        assert not said, said

    def stop(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
