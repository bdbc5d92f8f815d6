"""Thrift's compact protocol, in which a Parquet file says where its columns lie.

A struct is a mapping from field numbers to pairs of type and value, a list a pair of type and
values; what is read and written again without a change is the same bytes.
"""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_INTEGERS = (I16, I32, I64)

Struct = dict[int, tuple[int, Any]]


def read(data: bytes) -> Struct:
    """The struct at the beginning of some bytes."""
    return _Reader(data).struct()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 0x0F
            found[number] = (kind, None if kind in (TRUE, FALSE) else self._value(kind))
        return found

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._signed()
        if kind == BINARY:
            return self._bytes(self._unsigned())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._unsigned()
            return head & 0x0F, [self._value(head & 0x0F) for _ in range(count)]
        if kind in (TRUE, FALSE, BYTE):  # in a list a truth value is a byte
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(8)
        raise ValueError(f"no Parquet file has a value of kind {kind}")


def written(struct: Struct) -> bytes:
    """A struct as bytes."""
    into = bytearray()
    _struct(into, struct)
    return bytes(into)


def _unsigned(into: bytearray, value: int) -> None:
    while value >= 0x80:
        into.append(value & 0x7F | 0x80)
        value >>= 7
    into.append(value)


def _signed(into: bytearray, value: int) -> None:
    _unsigned(into, value << 1 if value >= 0 else (-value << 1) - 1)


def _struct(into: bytearray, struct: Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(struct.items()):
        if 0 < number - last < 16:
            into.append((number - last) << 4 | kind)
        else:
            into.append(kind)
            _signed(into, number)
        last = number
        if value is not None:
            _value(into, kind, value)
    into.append(0)


def _value(into: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _signed(into, value)
    elif kind == BINARY:
        _unsigned(into, len(value))
        into += value
    elif kind == STRUCT:
        _struct(into, value)
    elif kind in (LIST, SET):
        inner, values = value
        into.append(min(len(values), 15) << 4 | inner)
        if len(values) >= 15:
            _unsigned(into, len(values))
        for one in values:
            _value(into, inner, one)
    elif kind == DOUBLE:
        into += value
    else:
        into.append(value)
