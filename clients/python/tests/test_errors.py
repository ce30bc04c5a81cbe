"""Errors as callers read them."""

import unittest

import grpc

from quiver import CertificateError, DeniedError, InvalidError, UnavailableError, describe
from quiver.attempts import Attempts
from quiver.errors import DETAILS, _Status, from_rpc, never_sent
from quiver.v1.common_pb2 import ROLE_CONFIGURE, ErrorInfo


class Failed:
    """A failed call as gRPC hands it out, with google.rpc.Status as a router writes it."""

    def __init__(self, code, message, *infos, trailers=None):
        kind = b"type.googleapis.com/quiver.v1.ErrorInfo"
        packed = [b"\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(i.SerializeToString())]) + i.SerializeToString() for i in infos]
        status = _Status(code=code.value[0], message=message, details=packed)
        self.trailers = trailers or ((DETAILS, status.SerializeToString()), ("other", "x"))
        self._code, self._message = code, message

    def code(self):
        return self._code

    def details(self):
        return self._message

    def trailing_metadata(self):
        return self.trailers


class Errors(unittest.TestCase):
    def test_places(self):
        info = ErrorInfo(object="routes[0].prefix", rule="host-bits", file="document", line=11, column=14, message="no", expected=["10.1.0.0/16"])
        self.assertEqual(describe(info), "routes[0].prefix (document: line 11, column 14): no; right would be 10.1.0.0/16")
        error = from_rpc(Failed(grpc.StatusCode.INVALID_ARGUMENT, "unknown", ErrorInfo(line=2, column=9, message="unknown", applied=1)))
        self.assertIsInstance(error, InvalidError)
        self.assertEqual((str(error), error.applied), ("line 2, column 9: unknown", 1))

    def test_the_missing_role(self):
        error = from_rpc(Failed(grpc.StatusCode.PERMISSION_DENIED, "no", ErrorInfo(rule="denied", message="no", role_needed=ROLE_CONFIGURE)))
        self.assertIsInstance(error, DeniedError)
        self.assertEqual(error.role_needed, "configure")

    def test_details_that_are_none(self):
        for garbage in (b"\xff", b"\x1a\x03abc", b""):
            error = from_rpc(Failed(grpc.StatusCode.UNKNOWN, "why", trailers=((DETAILS, garbage),)))
            self.assertEqual((str(error), error.errors), ("why", []))
        self.assertEqual(str(from_rpc(Failed(grpc.StatusCode.UNKNOWN, "", trailers=None))), "unknown")

    def test_what_the_router_has_not_said(self):
        def gone(message):
            return from_rpc(Failed(grpc.StatusCode.UNAVAILABLE, message, trailers=()))

        connect = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:192.0.2.1:50051: "
        for said, part in {
            connect + "Unwrap failed (TSI_DATA_CORRUPTED)": "does not take this client's certificate",
            "Stream removed (Unwrap failed (TSI_DATA_CORRUPTED))": "does not take this client's certificate",
            connect + "Tls handshake failed: CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate": "`ca`",
            connect + "Custom verification check failed: Hostname Verification Check failed.": "`server_name`",
        }.items():
            error = gone(said)
            self.assertIsInstance(error, CertificateError)
            self.assertIn(part, str(error))
            # It gets no better by waiting.
            self.assertRaises(CertificateError, Attempts(10, None, True).pause, error)
        none, broken = gone(connect + "Connection refused"), gone("Stream removed (Socket closed)")
        self.assertTrue(never_sent(none) and str(none).startswith("there is no router (failed"))
        self.assertTrue(not never_sent(broken) and str(broken).startswith("the connection to the router has gone (Stream"))
        self.assertGreater(Attempts(10, None, False).pause(none), 0)
        ends = from_rpc(Failed(grpc.StatusCode.UNAVAILABLE, "the router ends", ErrorInfo(rule="ends", message="the router ends")))
        self.assertEqual((type(ends), str(ends), never_sent(ends)), (UnavailableError, "the router ends", False))


if __name__ == "__main__":
    unittest.main()
