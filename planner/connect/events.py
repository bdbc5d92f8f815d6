"""The scalars of TensorBoard's event files, as they are written.

A file is a row of records of TFRecord: the length of the data in 8 bytes, a checksum of these, the
data, a checksum of it (masked CRC-32C; tensorflow/core/lib/io/record_writer.h). The data is an
`Event` in Protocol Buffers (tensorflow/core/util/event.proto), of which the fields named below are
read. docs/decisions.md says why not with the package of TensorBoard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from planner.base.errors import Fault, Place, PlanError

#: Bytes of a record at most: pictures and graphs have some.
LONGEST = 1 << 28
HEAD = 12
#: Fields of the messages by their numbers.
_WALL_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 1, 2, 5, 1, 1, 2, 8
_TYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
#: The types of a tensor that is a number.
_FORMATS = {1: "<f", 2: "<d"}


class Scalar(NamedTuple):
    """One value of one tag."""

    step: int
    wall_time: float  # s
    tag: str
    value: float


class Records:
    """The records of a file as far as it was read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._left = b""
        self._read = 0  # bytes of whole records

    def feed(self, chunk: bytes) -> Iterator[Scalar]:
        """The scalars of the next bytes; a record that is not whole yet waits.

        Raises:
            PlanError: a record is damaged.
        """
        data, at = self._left + chunk, 0
        while len(data) - at >= HEAD:
            if not begins(data[at : at + HEAD]):
                raise self._damaged(at)
            (length,) = struct.unpack_from("<Q", data, at)
            if length > LONGEST:
                raise self._damaged(at)
            end = at + HEAD + length
            if len(data) < end + 4:
                break
            record = data[at + HEAD : end]
            try:
                found = list(_scalars(record))
            except (ValueError, IndexError, struct.error, UnicodeDecodeError):
                raise self._damaged(at) from None
            # Pictures and histograms are not read, so it does not matter whether they are whole.
            if found and struct.pack("<I", _masked(record)) != data[end : end + 4]:
                raise self._damaged(at)
            yield from found
            at = end + 4
        self._left, self._read = data[at:], self._read + at

    def _damaged(self, at: int) -> PlanError:
        what = f"the record at byte {self._read + at} is damaged"
        return PlanError(Fault(what, self.place, "an event file of TensorBoard"))


def begins(head: bytes) -> bool:
    """Whether a record begins so: a length with its checksum."""
    return len(head) == HEAD and struct.pack("<I", _masked(head[:8])) == head[8:]


def _table() -> list[int]:
    """What each byte does to a CRC-32C (RFC 3720, the polynomial of Castagnoli, bits reversed)."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _table()


def _masked(data: bytes) -> int:
    """The checksum as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _scalars(event: bytes) -> Iterator[Scalar]:
    wall_time, step, summaries = 0.0, 0, []
    for number, value in _fields(event):
        if number == _WALL_TIME and isinstance(value, bytes):
            (wall_time,) = struct.unpack("<d", value)
        elif number == _STEP and isinstance(value, int):
            step = value - (1 << 64 if value >> 63 else 0)
        elif number == _SUMMARY and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == _VALUE and isinstance(value, bytes):
                fields = dict(_fields(value))
                tag, found = fields.get(_TAG), _number(fields)
                if found is not None and isinstance(tag, bytes):
                    yield Scalar(step, wall_time, tag.decode(), found)


def _number(fields: dict[int, int | bytes]) -> float | None:
    """The value of a scalar: a float, or a tensor that holds one number."""
    simple, tensor = fields.get(_SIMPLE), fields.get(_TENSOR)
    if isinstance(simple, bytes) and len(simple) == 4:
        return _shortest(simple)
    if isinstance(tensor, bytes):
        inside = dict(_fields(tensor))
        form = _FORMATS.get(inside.get(_TYPE))  # type: ignore[arg-type]
        for raw in (inside.get(_CONTENT), inside.get(_FLOATS), inside.get(_DOUBLES)):
            if form and isinstance(raw, bytes) and len(raw) == struct.calcsize(form):
                return _shortest(raw) if form == "<f" else float(struct.unpack(form, raw)[0])
    return None


def _shortest(raw: bytes) -> float:
    """The shortest decimal that a float of 4 bytes stands for; of a whole number all digits."""
    value = float(struct.unpack("<f", raw)[0])
    for digits in () if value.is_integer() or abs(value) > 1e38 else (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<f", short) == raw:
            return short
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by number: whole numbers, and bytes as they stand.

    Raises:
        ValueError, IndexError: it is none.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ValueError("no field")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("no whole number")
