"""systemd runs the unit of the package: in a container with an overlay over this machine's root, which goes with the test."""

import shutil
import subprocess

import pytest
from harness import BINARY
from harness.router import REPO

# Waits for a condition of systemd's, at most 30 s; what it says of the unit; what is to be told to the test.
LAB = """
state() { systemctl show quiver -P "$1"; }
until_() { for _ in $(seq 300); do eval "$1" && return; sleep 0.1; done; echo "in vain: $1"; systemctl status quiver; }
other() { new=$(state MainPID); [ "$new" != 0 ] && [ "$new" != $pid ] && [ "$(state ActiveState)" = active ]; }
# Back to the test, whatever becomes of the script.
exec >/srv/said 2>&1
trap 'journalctl -u quiver --no-pager -o cat >/srv/journal; systemctl poweroff --force --force' EXIT
systemctl start quiver
echo started $(state ActiveState) $(state StatusText)
pid=$(state MainPID)
echo runs as $(stat -c %U /proc/$pid) with $(sed -n 's/CapEff:[[:space:]]*//p' /proc/$pid/status)
echo version $(quiver ctl show version | head -1)
# As udev makes it.
[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
chmod 666 /dev/net/tun
quiver ctl create tap id 0
echo tap $(quiver ctl show hardware-interfaces | grep tap0)
# A pair, which the state keeps over a start, and systemd with a carrier.
quiver ctl create loopback interface instance 5
quiver ctl set interface state loop5 up
quiver ctl lcp create loop5 host-if lo5
quiver save
lo5=/sys/class/net/lo5
until_ '[ $(cat $lo5/carrier) = 1 ]'
pair() { echo pair $(cat $lo5/ifindex) $(cat $lo5/carrier_changes); }
pair
kill -9 $pid
until_ other
echo back after kill
pair
systemctl restart quiver
pair
quiver ctl show last-words | tail -1
pid=$(state MainPID)
pid=$(state MainPID)
kill -STOP $pid
until_ other
echo back after stop
systemctl stop quiver
echo stopped $(state ActiveState) $(state Result) $(state ExecMainStatus)
mv /var/lib/quiver/state /var/lib/quiver/before
echo 'interfaces: {eth0: {mtu: 3}}' >/etc/quiver/quiver.yaml
systemctl start quiver || echo refused $(state ExecMainStatus)
echo end
"""

UNIT = """
[Unit]
Requires=basic.target dbus.socket
After=basic.target dbus.socket
[Service]
ExecStart=/bin/bash /srv/lab.sh
"""

ROOT = """set -e
mount -t tmpfs none {dir}
mkdir {dir}/upper {dir}/work {dir}/root
mount -t overlay overlay -o lowerdir=/,upperdir={dir}/upper,workdir={dir}/work {dir}/root
: >{dir}/root/etc/machine-id
rm -rf {dir}/root/var/log/journal
cp {shared}/quiver.deb {dir}/root/var/tmp/
chroot {dir}/root dpkg --no-triggers -i /var/tmp/quiver.deb
cp {shared}/quiver-lab.service {dir}/root/etc/systemd/system/
mkdir -p {dir}/root/etc/systemd/system/quiver.service.d
# Not half a minute.
printf '[Service]\\nWatchdogSec=2\\n' >{dir}/root/etc/systemd/system/quiver.service.d/lab.conf
exec systemd-nspawn --quiet --directory {dir}/root --boot --private-network --register=no --keep-unit --machine=quiver-lab --capability=CAP_IPC_LOCK \\
    --bind={shared}:/srv --console=pipe -- systemd.unit=quiver-lab.service
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """What the script in the container said, by first word, and what the unit wrote to the journal."""
    if not shutil.which("systemd-nspawn"):
        pytest.skip("no systemd-nspawn: scripts/setup installs systemd-container")
    shared, folder = tmp_path_factory.mktemp("shared"), tmp_path_factory.mktemp("root")
    subprocess.run(["strip", "-o", shared / "quiver", BINARY], check=True)
    subprocess.run([f"{REPO}/scripts/package", "--binary", shared / "quiver", "--out", shared, "--version", "1.0", "--compress", "none"],
                   check=True, capture_output=True)
    next(shared.glob("quiver_*.deb")).rename(shared / "quiver.deb")
    (shared / "lab.sh").write_text(LAB)
    (shared / "quiver-lab.service").write_text(UNIT)
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", ROOT.format(dir=folder, shared=shared)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    assert (shared / "said").exists(), done.stdout + done.stderr
    return (shared / "said").read_text().splitlines(), (shared / "journal").read_text()


def test_systemd_runs_the_unit(lab):
    said, journal = lab
    assert said[0].startswith("started active "), (said, journal)
    # NET_ADMIN, NET_RAW, IPC_LOCK, SYS_NICE, SETUID, SETGID, and no other.
    assert said[1] == f"runs as quiver with {1 << 12 | 1 << 13 | 1 << 14 | 1 << 23 | 1 << 6 | 1 << 7:016x}"
    assert said[2].startswith("version quiver "), said
    assert any(s.startswith("tap ") and "tap0" in s for s in said), said
    # The same device, whose carrier has never gone: after a kill, and after a restart.
    pairs = [s for s in said if s.startswith("pair ")]
    assert len(pairs) == 3 and len(set(pairs)) == 1 and len(pairs[0].split()) == 3, said
    assert "back after kill" in said and "back after stop" in said, (said, journal)
    assert "stopped inactive success 0" in said, (said, journal)
    assert "refused 1" in said and "mtu" in journal and "end" in said, (said, journal)
