"""A router whose API is reached over TCP with TLS, and certificates for it."""

import os
import socket
import subprocess

from .expect import wait_for
from .netns import run
from .router import BINARY

NAME = "router.example.net"
#: `openssl ca`, which alone makes certificates whose time is over.
CA = """[ca]
default_ca = c
[c]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
unique_subject = no
policy = p
[p]
commonName = supplied
"""


class TlsRouter:
    """Certificates in a folder, and a router without interfaces that has them."""

    def __init__(self, folder):
        self.folder = str(folder)
        for name in ("routers", "clients", "others"):
            self._openssl(f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 100 -subj /CN={name} -keyout {name}.key -out {name}.crt")
        self.certificate("router", "routers", f"DNS:{NAME}")
        self.certificate("fleet", "clients", "DNS:fleet.example.net")
        self.certificate("stranger", "clients", "DNS:stranger.example.net")
        self.certificate("foreign", "others", "DNS:fleet.example.net")
        self.certificate("expired", "clients", "DNS:fleet.example.net", "-startdate 20200101000000Z -enddate 20210101000000Z")
        # An address of this process alone, so that no other test has the port.
        self.address = f"127.40.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:50051"
        at = self.folder
        self._write("router.yaml", f"""quiver:
  poll: power
  buffers: {{count: 2048, huge-pages: never}}
  sockets: {{ctl: {at}/ctl}}
  api:
    socket: {at}/api
    rate: {{calls: 50}}
    listen:
      - {{address: "{self.address}", certificate: {at}/router.crt, key: {at}/router.key, client-ca: {at}/clients.crt, roles: {{fleet.example.net: configure}}}}
""")
        with open(os.path.join(at, "log"), "w") as log:
            self.process = subprocess.Popen([BINARY, "run", "--config", os.path.join(at, "router.yaml")], stderr=log)
        try:
            wait_for("the router listens", self._listens, timeout=60)
        except AssertionError:
            self.close()
            raise AssertionError(open(os.path.join(at, "log")).read()) from None

    def _listens(self):
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def _openssl(self, line):
        run(["openssl", *line.split()], cwd=self.folder)

    def certificate(self, name, signer, names, days="-days 100"):
        """A key, and a certificate that another one signs, for these names."""
        self._openssl(f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr")
        for file, text in (("ca", CA), ("index", ""), ("serial", "01"), ("extensions", f"basicConstraints=CA:FALSE\nsubjectAltName={names}\n")):
            self._write(file, text)
        self._openssl(
            f"ca -batch -notext -config ca -cert {signer}.crt -keyfile {signer}.key -in {name}.csr -out {name}.crt -extfile extensions {days}"
        )

    def words(self, name="fleet", ca="routers", server_name=NAME):
        """What an example takes: address, certificate, key, CA, and the name of the router's certificate."""
        files = [os.path.join(self.folder, file) for file in (f"{name}.crt", f"{name}.key", f"{ca}.crt")]
        return [self.address, *files, *([server_name] if server_name else [])]

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def check(router, ends):
    """Who is let in and who is not. `ends` has a program end: with status and output, for the words that it is given."""
    status, text = ends(*router.words())
    assert status == 0 and "fleet.example.net" in text and "configure" in text.lower(), text
    status, text = ends(*router.words("stranger"))
    assert status == 1 and "`stranger.example.net` has no role in quiver.api.listen[0].roles" in text and "`read`" in text, text
    told = {}
    for what, words in {
        "foreign": router.words("foreign"),
        "expired": router.words("expired"),
        "no router to trust": router.words(ca="others"),
        "another router": router.words(server_name="another.example.net"),
        "address": router.words(server_name=None),
    }.items():
        status, told[what] = ends(*words)
        assert status == 1, (what, told)
    # They did no harm.
    assert ends(*router.words())[0] == 0
    return told
