"""The requests of calls that both kinds of Router make, and how answers are put together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from .v1 import commands_pb2, configuration_pb2, counters_pb2

M = TypeVar("M", bound=Message)


class Answer(str):
    """The text that a command answers."""

    #: It ran, and did not find what it was to find, such as a ping that nobody answered.
    failed: bool

    def __new__(cls, text: str, failed: bool = False) -> Answer:
        answer = super().__new__(cls, text)
        answer.failed = failed
        return answer


@dataclass(frozen=True)
class SavedConfiguration:
    """A configuration of the history: what is known of it, and the document."""

    entry: configuration_pb2.HistoryResponse.Entry
    document: str


def saved(parts: Iterable[configuration_pb2.HistoryResponse]) -> SavedConfiguration:
    """An entry of the history with its document."""
    some = list(parts)
    return SavedConfiguration(merged(configuration_pb2.HistoryResponse(), some).entries[0], "".join(p.document for p in some))


def merged(into: M, parts: Iterable[M]) -> M:
    """All messages of a stream in one: lists are put behind one another."""
    for part in parts:
        into.MergeFrom(part)
    return into


def line(text: str, as_json: bool, directory: str) -> commands_pb2.RunRequest:
    """One command."""
    form = commands_pb2.FORMAT_JSON if as_json else commands_pb2.FORMAT_TEXT
    return commands_pb2.RunRequest(line=text, format=form, directory=directory)


def lines(text: str | Iterable[str], as_json: bool, directory: str) -> commands_pb2.RunRequest:
    """Several commands."""
    form = commands_pb2.FORMAT_JSON if as_json else commands_pb2.FORMAT_TEXT
    joined = text if isinstance(text, str) else "\n".join(text)
    return commands_pb2.RunRequest(lines=joined, format=form, directory=directory)


def text_of(parts: Iterable[commands_pb2.RunResponse]) -> Answer:
    """The text of pieces."""
    some = list(parts)
    return Answer("".join(p.text for p in some), any(p.ended.failed for p in some))


def value_of(parts: Iterable[commands_pb2.RunResponse]) -> Any:
    """The value of pieces of JSON."""
    text = "".join(p.json for p in parts)
    return json.loads(text) if text else None


def document_text(document: str | dict[str, Any]) -> str:
    """A document as text: YAML as it is, a mapping as JSON."""
    return document if isinstance(document, str) else json.dumps(document)


@dataclass(frozen=True)
class Reading:
    """The values of counters at a time."""

    #: When, in nanoseconds since 1970 UTC.
    time_ns: int
    #: Those that are not 0.
    values: list[counters_pb2.ReadCountersResponse.Value]


class Readings:
    """Puts the messages of readings together."""

    def __init__(self) -> None:
        self._values: list[counters_pb2.ReadCountersResponse.Value] = []

    def read(self, part: counters_pb2.ReadCountersResponse) -> Reading | None:
        """A reading, where it is complete with this message."""
        self._values += part.values
        if not part.complete:
            return None
        reading, self._values = Reading(part.time_ns, self._values), []
        return reading


def reading_of(parts: Iterable[counters_pb2.ReadCountersResponse]) -> Reading:
    """The only reading of a stream."""
    readings = Readings()
    return next(filter(None, map(readings.read, parts)), Reading(0, []))
