"""What goes wrong, with the places that the router tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory

from .v1.common_pb2 import ErrorInfo, Role

#: Where a status carries its details: google.rpc.Status.
DETAILS = "grpc-status-details-bin"


class QuiverError(Exception):
    """Whatever this package raises of its own."""


class PrefixError(QuiverError, ValueError):
    """A prefix or address that is none, found before anything is sent."""


class CallError(QuiverError):
    """A call that failed.

    `code` is gRPC's, `message` a sentence, `errors` what the router says of it: for each fault its object, rule, value, place,
    and what would be right. `retry_after` are the seconds after which who has asked for too much may come again.
    """

    def __init__(
        self, code: grpc.StatusCode, message: str, errors: Iterable[ErrorInfo] = (), retry_after: float | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.errors = list(errors)
        self.retry_after = retry_after

    @property
    def role_needed(self) -> str:
        """The role that is missing, such as `configure`; empty where it is not that."""
        return next((role_name(e.role_needed) for e in self.errors if e.role_needed), "")

    @property
    def applied(self) -> int:
        """Commands that were applied before the one that failed, and stay."""
        return max((e.applied for e in self.errors), default=0)

    def __str__(self) -> str:
        text = self.message or self.code.name.lower().replace("_", " ")
        if len(self.errors) == 1 and self.errors[0].line and not self.errors[0].file:
            # Of a script: the sentence does not say which line.
            text = f"{_place(self.errors[0])}: {text}"
        # What is told of documents has been cut off where it is long.
        return "\n".join([text, *(f"  {describe(e)}" for e in self.errors if e.message not in self.message)])


class InvalidError(CallError):
    """A command that is none, or an argument that cannot be."""


class DeniedError(CallError):
    """The caller's role does not suffice: `role_needed` would."""


class RefusedError(CallError):
    """The router refuses it as things are, and has changed nothing."""


class AbortedError(CallError):
    """What runs has another version than the one that was named, or an answer was cut off: look again."""


class LimitError(CallError):
    """More than the router allows a client: `retry_after` says when to come again, where that helps."""


class UnavailableError(CallError):
    """There is no router at the other end, or it went away. What was under way may have been done, or not."""


class CertificateError(UnavailableError):
    """One side does not take the other's certificate. It is not tried again by itself: the files are read once."""


class DeadlineError(CallError):
    """The time for the call is over."""


_KINDS = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
    grpc.StatusCode.FAILED_PRECONDITION: RefusedError,
    grpc.StatusCode.ABORTED: AbortedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
}


def role_name(role: int) -> str:
    """`configure` for ROLE_CONFIGURE."""
    return Role.Name(role).removeprefix("ROLE_").lower() if role in Role.values() else str(role)


def _place(e: ErrorInfo) -> str:
    numbers = [f"line {e.line}"] if e.line else []
    numbers += [f"column {e.column}"] if e.column else []
    return ": ".join(part for part in (e.file, ", ".join(numbers)) if part)


def describe(e: ErrorInfo) -> str:
    """An error in a line: object, place, what is wrong, and what would be right."""
    where = f"{e.object} ({_place(e)})" if e.object and _place(e) else e.object or _place(e)
    text = ": ".join(part for part in (where, e.message) if part)
    if e.expected and "expected" not in e.message:
        text += "; right would be " + ", ".join(e.expected)
    return text


def _status_messages() -> tuple[Any, Any]:
    """google.rpc.Status and RetryInfo, with messages in them kept as bytes: so no further package is needed."""
    file = descriptor_pb2.FileDescriptorProto(name="quiver_status.proto", package="quiver.internal", syntax="proto3")
    message = file.message_type.add(name="Status")
    kind = descriptor_pb2.FieldDescriptorProto
    for number, (name, of) in enumerate((("code", kind.TYPE_INT32), ("message", kind.TYPE_STRING), ("details", kind.TYPE_BYTES)), 1):
        label = kind.LABEL_REPEATED if name == "details" else kind.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=of, label=label)
    message = file.message_type.add(name="RetryInfo")
    message.field.add(name="retry_delay", number=1, type=kind.TYPE_BYTES, label=kind.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    status, retry = (pool.FindMessageTypeByName(f"quiver.internal.{name}") for name in ("Status", "RetryInfo"))
    return message_factory.GetMessageClass(status), message_factory.GetMessageClass(retry)


_Status, _RetryInfo = _status_messages()


def _details(trailers: Any) -> tuple[list[ErrorInfo], float | None]:
    """What the router says beside the sentence: what is wrong, and when to come again."""
    infos: list[ErrorInfo] = []
    retry = None
    for key, value in trailers or ():
        if key != DETAILS:
            continue
        try:
            for detail in _Status.FromString(value).details:
                packed, info = any_pb2.Any.FromString(detail), ErrorInfo()
                if packed.Unpack(info):
                    infos.append(info)
                elif packed.TypeName() == "google.rpc.RetryInfo":
                    delay = duration_pb2.Duration.FromString(_RetryInfo.FromString(packed.value).retry_delay)
                    retry = delay.seconds + delay.nanos / 1e9
        except Exception:  # a status that something between has cut off: its sentence remains
            continue
    return infos, retry


#: Words of gRPC's that tell of certificates, and what they mean. An alert that ends TLS is corrupted data to it.
_CERTIFICATES = (
    ("TSI_DATA_CORRUPTED", "the router does not take this client's certificate, and its log says why"),
    ("CERTIFICATE_VERIFY_FAILED", "the router's certificate is none that `ca` vouches for, or its time is over"),
    ("Hostname Verification", "the router's certificate is for another name, and `server_name` says for which it must be"),
)
#: So begins what gRPC says where there was no connection.
_NO_CONNECTION = "failed to connect"


def from_rpc(error: Any) -> CallError:
    """The error that a failed call of gRPC is."""
    code, said = error.code() or grpc.StatusCode.UNKNOWN, error.details() or ""
    infos, retry = _details(error.trailing_metadata())
    if code is not grpc.StatusCode.UNAVAILABLE or infos:
        return _KINDS.get(code, CallError)(code, said, infos, retry)
    # Of this the router has said nothing.
    for words, meaning in _CERTIFICATES:
        if words in said:
            return CertificateError(code, f"{meaning} ({said})")
    meaning = "there is no router" if said.startswith(_NO_CONNECTION) else "the connection to the router has gone"
    return UnavailableError(code, f"{meaning} ({said})" if said else meaning)


def never_sent(error: CallError) -> bool:
    """Nobody has heard of the call, for there was no connection: it may be made again, whatever it does."""
    return isinstance(error, UnavailableError) and f"({_NO_CONNECTION}" in error.message
