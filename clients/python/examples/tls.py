"""Says which router it is at the other end of a network, and what the caller may do there: `tls.py HOST:PORT CERTIFICATE KEY CA [SERVER-NAME]`."""
import sys

from quiver import CallError, Router
from quiver.errors import role_name

address, certificate, key, ca, *name = sys.argv[1:]
try:
    with Router(address, certificate=certificate, key=key, ca=ca, server_name=name[0] if name else None, patience=0) as router:
        system = router.system()
        print(system.version, system.certificate, role_name(system.role))
except CallError as e:
    sys.exit(f"{e.code.name}: {e}")
