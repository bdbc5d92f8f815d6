"""The scalars of TensorBoard's event files, by tensorboardX (extra: tensorboard).

A file is a row of records of TFRecord: the length of the data in 8 bytes, a checksum of these, the
data, a checksum of it (tensorflow/core/lib/io/record_writer.h). The data is an `Event` in Protocol
Buffers. docs/decisions.md says why not with the package of TensorBoard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from planner.base.errors import Place, PlanError, require_extra

#: Bytes of a record at most: pictures and graphs have some.
LONGEST = 1 << 28
HEAD = 12
#: The types of a tensor that is a number, in its bytes.
_FORMATS = {1: "<f4", 2: "<f8"}


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
            PlanError: a record is damaged, or tensorboardX is not installed.
        """
        with require_extra("an event file of TensorBoard", "tensorboard", ", or export CSV"):
            from google.protobuf.message import DecodeError
            from tensorboardX.proto.event_pb2 import Event
            from tensorboardX.record_writer import masked_crc32c

        data, at = self._left + chunk, 0
        scalars = list[Scalar]()
        while len(data) - at >= HEAD:
            length, sealed = struct.unpack_from("<QI", data, at)
            if length > LONGEST or masked_crc32c(data[at : at + 8]) != sealed:
                raise self._report_damage(at)
            end = at + HEAD + length
            if len(data) < end + 4:
                break
            record = data[at + HEAD : end]
            try:
                found = [*_list_scalars(Event.FromString(record))]
            except (DecodeError, ValueError):
                raise self._report_damage(at) from None
            # Pictures and histograms are not read, so it does not matter whether they are whole.
            if found and masked_crc32c(record) != int.from_bytes(data[end : end + 4], "little"):
                raise self._report_damage(at)
            scalars += found
            at = end + 4
        self._left, self._read = data[at:], self._read + at
        return scalars

    def _report_damage(self, at: int) -> PlanError:
        """Make the error for a damaged record."""
        what = f"the record at byte {self._read + at} is damaged"
        return PlanError(what, self.place, "an event file of TensorBoard")


def is_record(head: bytes) -> bool:
    """Check whether a record may begin so: with a length, whose last bytes no text has."""
    return len(head) == HEAD and head[4:8] == bytes(4)


def _list_scalars(event: Any) -> Iterator[Scalar]:
    """Yield the scalars of an event, all at its step and time; other values are skipped."""
    import numpy as np

    for value in event.summary.value:
        found: Any = [value.simple_value] if value.HasField("simple_value") else []
        if value.HasField("tensor") and value.tensor.dtype in _FORMATS:
            raw = np.frombuffer(value.tensor.tensor_content, _FORMATS[value.tensor.dtype])
            found = [*raw, *value.tensor.float_val, *value.tensor.double_val]
        if len(found) == 1:
            wide = value.HasField("tensor") and value.tensor.dtype == 2
            # Of a whole number all digits, else the shortest decimal that 4 bytes stand for.
            exact = wide or float(found[0]).is_integer()
            number = float(found[0]) if exact else float(str(np.float32(found[0])))
            yield Scalar(event.step, event.wall_time, value.tag, number)
