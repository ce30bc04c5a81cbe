"""A connection that takes its time to be made."""

import os
import socket
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import grpc

from quiver import Router
from quiver.v1 import system_pb2, system_pb2_grpc


class Far(system_pb2_grpc.SystemServicer):
    """A router that answers."""

    def Get(self, request, context):
        return system_pb2.GetSystemResponse(version="far")


def relay(listener, to, delay):
    """Hands on the first connection, and what comes back of it only after a while."""
    near, _ = listener.accept()
    with near, socket.socket(socket.AF_UNIX) as far:
        far.connect(to)

        def back():
            time.sleep(delay)
            while data := far.recv(1 << 16):
                near.sendall(data)

        threading.Thread(target=back, daemon=True).start()
        while data := near.recv(1 << 16):
            far.sendall(data)


class Connecting(unittest.TestCase):
    def test_a_router_that_is_far_away_is_waited_for(self):
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
            there, here = os.path.join(folder, "there"), os.path.join(folder, "here")
            server = grpc.server(pool)
            system_pb2_grpc.add_SystemServicer_to_server(Far(), server)
            server.add_insecure_port("unix:" + there)
            server.start()
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(here)
                listener.listen()
                # Longer than the first pause between attempts.
                threading.Thread(target=relay, args=(listener, there, 0.5), daemon=True).start()
                with Router(here, patience=0) as router:
                    self.assertEqual(router.system(timeout=30).version, "far")
            server.stop(None).wait()


if __name__ == "__main__":
    unittest.main()
