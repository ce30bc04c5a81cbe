"""Errors as callers read them."""

import unittest

import grpc

from quiver import DeniedError, InvalidError, describe
from quiver.errors import DETAILS, _Status, from_rpc
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


if __name__ == "__main__":
    unittest.main()
