"""The scalars of TensorBoard's event files, as they are written.

A file is a row of records of TFRecord: the length of the data in 8 bytes, a checksum of these, the
data, a checksum of it (masked CRC-32C; tensorflow/core/lib/io/record_writer.h). The data is an
`Event` in Protocol Buffers (tensorflow/core/util/event.proto), of which the fields named below are
read. docs/decisions.md says why not with the package of TensorBoard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from planner.base.errors import Fault, Place, PlanError

#: Bytes of a record at most: pictures and graphs have some.
LONGEST = 1 << 28
HEAD = 12
#: What is raised where a record is damaged.
BROKEN = (ValueError, IndexError, struct.error, UnicodeDecodeError)
#: Bytes of a record whose form is kept.
SHORT = 256
#: Records of one length whose checksums are worth an array.
MANY = 32
#: Fields of the messages by their numbers.
_WALL_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 1, 2, 5, 1, 1, 2, 8
_TYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
#: The types of a tensor that is a number.
_FORMATS = {1: "<f", 2: "<d"}
#: Bytes of a field by how it is written, where that says it.
_LENGTHS = {1: 8, 5: 4}


class Scalar(NamedTuple):
    """One value of one tag.

    Attributes:
        step: the step of the run.
        wall_time: seconds since 1970.
        tag: the name of the curve.
        value: its value at that step.
    """

    step: int
    wall_time: float
    tag: str
    value: float


class Records:
    """The records of a file as far as it was read."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._left = b""
        self._read = 0  # bytes of whole records

    def read_chunk(self, chunk: bytes) -> list[Scalar]:
        """Return the scalars of the next bytes; keep a record that is not whole yet.

        Raises:
            PlanError: a record is damaged.
        """
        data, at = self._left + chunk, 0
        scalars, summed = list[Scalar](), list[tuple[int, bytes, bytes]]()
        while len(data) - at >= HEAD:
            if not is_record(data[at : at + HEAD]):
                raise self._report_damage(at)
            (length,) = struct.unpack_from("<Q", data, at)
            if length > LONGEST:
                raise self._report_damage(at)
            end = at + HEAD + length
            if len(data) < end + 4:
                break
            record = data[at + HEAD : end]
            try:
                found = _decode_plain(record) or list(_read_scalars(record))
            except BROKEN:
                raise self._report_damage(at) from None
            # Pictures and histograms are not read, so it does not matter whether they are whole.
            if found:
                summed.append((at, record, data[end : end + 4]))
                scalars += found
            at = end + 4
        sums = _all_masked([record for _, record, _ in summed])
        for (place, _, stored), checksum in zip(summed, sums, strict=True):
            if struct.pack("<I", checksum) != stored:
                raise self._report_damage(place)
        self._left, self._read = data[at:], self._read + at
        return scalars

    def _report_damage(self, at: int) -> PlanError:
        """Make the error for a damaged record."""
        what = f"the record at byte {self._read + at} is damaged"
        return PlanError(Fault(what, self.place, "an event file of TensorBoard"))


@lru_cache(1024)
def is_record(head: bytes) -> bool:
    """Check whether a record begins so: a length with its checksum."""
    return len(head) == HEAD and struct.pack("<I", _compute_crc(head[:8])) == head[8:]


def _build_crc() -> list[int]:
    """Build the table of a CRC-32C by byte (RFC 3720, bits reversed)."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _build_crc()


def _compute_crc(data: bytes) -> int:
    """Compute the checksum as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return int(_mask(crc))


def _mask(crc: Any) -> Any:
    """Turn a checksum, or an array of them, as TFRecord does."""
    crc = crc ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _all_masked(records: Sequence[bytes]) -> list[int]:
    """Compute the checksums of records; of many of one length byte by byte of all at once."""
    found = dict[bytes, int]()
    for length, several in groupby(sorted(set(records), key=len), len):
        alike = list(several)
        if len(alike) < MANY:
            found |= zip(alike, map(_compute_crc, alike), strict=True)
            continue
        import numpy as np

        table, crc = np.array(_CRC, np.uint32), np.full(len(alike), 0xFFFFFFFF, np.uint32)
        for column in np.frombuffer(b"".join(alike), np.uint8).reshape(-1, length).T:
            crc = table[(crc ^ column) & 0xFF] ^ crc >> 8
        found |= zip(alike, _mask(crc).tolist(), strict=True)
    return [found[record] for record in records]


def _decode_plain(event: bytes) -> list[Scalar]:
    """Decode a record as most are, a clock, a step and one float; return none of another form."""
    if len(event) > SHORT or event[:1] != b"\x09" or event[9:10] != b"\x10":
        return []
    step, at = _decode_varint(event, 10)
    tag = _decode_tag(event[at:-4])
    if tag is None:
        return []
    (clock,) = struct.unpack_from("<d", event, 1)
    return [Scalar(step - (1 << 64 if step >> 63 else 0), clock, tag, _decode_float(event[-4:]))]


@lru_cache(4096)
def _decode_tag(before: bytes) -> str | None:
    """Decode the tag of the one float whose value follows these bytes; None for anything else."""
    numbers = (1.0, 2.0)
    try:
        both = [list(_read_scalars(before + struct.pack("<f", number))) for number in numbers]
    except BROKEN:
        return None
    alone = all(len(each) == 1 for each in both)
    return both[0][0].tag if alone and tuple(each[0].value for each in both) == numbers else None


def _read_scalars(event: bytes) -> Iterator[Scalar]:
    """Yield the scalars of an event, all at its step and time; other values are skipped."""
    fields = _decode_fields(event)
    about = dict(fields)
    wall_time, step = about.get(_WALL_TIME), about.get(_STEP)
    step = step - (1 << 64 if step >> 63 else 0) if isinstance(step, int) else 0
    clock = struct.unpack("<d", wall_time)[0] if isinstance(wall_time, bytes) else 0.0
    summaries = [each for field, each in fields if field == _SUMMARY and isinstance(each, bytes)]
    for summary in summaries:
        for number, value in _decode_fields(summary):
            if number == _VALUE and isinstance(value, bytes):
                inside = dict(_decode_fields(value))
                tag, found = inside.get(_TAG), _decode_number(inside)
                if found is not None and isinstance(tag, bytes):
                    yield Scalar(step, clock, tag.decode(), found)


def _decode_number(fields: dict[int, int | bytes]) -> float | None:
    """Decode the value of a scalar: a float, or a tensor that holds one number."""
    simple, tensor = fields.get(_SIMPLE), fields.get(_TENSOR)
    if isinstance(simple, bytes) and len(simple) == 4:
        return _decode_float(simple)
    if isinstance(tensor, bytes):
        inside = dict(_decode_fields(tensor))
        form = _FORMATS.get(inside.get(_TYPE))  # type: ignore[arg-type]
        for raw in (inside.get(_CONTENT), inside.get(_FLOATS), inside.get(_DOUBLES)):
            if form and isinstance(raw, bytes) and len(raw) == struct.calcsize(form):
                return _decode_float(raw) if form == "<f" else float(struct.unpack(form, raw)[0])
    return None


def _decode_float(raw: bytes) -> float:
    """Return the shortest decimal that 4 bytes stand for; of a whole number all digits."""
    value = float(struct.unpack("<f", raw)[0])
    for digits in () if value.is_integer() or abs(value) > 1e38 else (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<f", short) == raw:
            return short
    return value


def _decode_fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Decode the fields of a message by number: whole numbers, and bytes as they stand.

    Raises:
        ValueError, IndexError: it is none.
    """
    found, at, size = list[tuple[int, int | bytes]](), 0, len(message)
    while at < size:
        key, at = message[at], at + 1
        if key > 0x7F:
            key, at = _decode_varint(message, at - 1)
        wire = key & 7
        if wire == 0:
            value, at = _decode_varint(message, at)
            found.append((key >> 3, value))
            continue
        length = _LENGTHS.get(wire)
        if wire == 2:
            length, at = message[at], at + 1
            if length > 0x7F:
                length, at = _decode_varint(message, at - 1)
        if length is None or at + length > size:
            raise ValueError("no field")
        found.append((key >> 3, message[at : at + length]))
        at += length
    return found


def _decode_varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode a whole number of seven bits a byte; return it and the place behind it.

    Raises:
        ValueError: it takes more than ten bytes.
        IndexError: the message ends inside it.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("no whole number")
