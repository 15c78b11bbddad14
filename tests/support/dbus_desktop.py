"""A desktop for notification tests: a private session bus with a notification service.

It speaks just enough D-Bus to answer the real `notify-send`; every other request is refused.
"""

import os
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = "org.freedesktop.Notifications"
BUS: Final = "org.freedesktop.DBus"
END_SECONDS_MAX: Final = 10.0
_CALL, _REPLY, _REFUSAL = 1, 2, 3
_PATH, _INTERFACE, _MEMBER, _ERROR, _REPLY_TO, _TO, _FROM, _SIGNATURE = range(1, 9)
_TYPES: Final = {
    _PATH: "o",
    _INTERFACE: "s",
    _MEMBER: "s",
    _ERROR: "s",
    _REPLY_TO: "u",
    _TO: "s",
    _FROM: "s",
    _SIGNATURE: "g",
}
_CONFIG: Final = """<busconfig><type>session</type><listen>unix:path={socket}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"""

Fields = dict[int, str | int]


@dataclass(frozen=True)
class Notice:
    """What a desktop would show."""

    program: str
    title: str
    body: str


class Desktop:
    """The bus and a notification service; without `shows` there is no service."""

    def __init__(self, folder: Path, *, shows: bool = True) -> None:
        self.shows = shows
        path, config = folder / "bus", folder / "bus.xml"
        config.write_text(_CONFIG.format(socket=path))
        self.notices: list[Notice] = []
        self.environ = {"DISPLAY": ":77", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={path}"}
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"]
        self._bus = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._socket = socket.socket(socket.AF_UNIX)
        self._serial = 0
        assert self._bus.stdout is not None, "it is a pipe"
        # It prints its address once it listens.
        assert self._bus.stdout.readline().startswith(b"unix:")
        self._thread = threading.Thread(target=self._serve, name="desktop")
        if shows:
            self._join(path)
            self._thread.start()

    def end(self) -> None:
        self._bus.terminate()
        self._bus.communicate(timeout=END_SECONDS_MAX)
        if self._thread.is_alive():
            self._thread.join(END_SECONDS_MAX)
        self._socket.close()

    def _join(self, path: Path) -> None:
        self._socket.connect(str(path))
        self._socket.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
        assert self._socket.recv(1024).startswith(b"OK")
        self._socket.sendall(b"BEGIN\r\n")
        call: Fields = {_PATH: "/org/freedesktop/DBus", _INTERFACE: BUS, _TO: BUS}
        self._send(_CALL, call | {_MEMBER: "Hello"})
        self._send(
            _CALL,
            call | {_MEMBER: "RequestName", _SIGNATURE: "su"},
            _text(NAME) + _aligned(_text(NAME), 4, 0),
        )

    def _serve(self) -> None:
        with suppress(ConnectionError, OSError):
            while (head := self._receive(16)) != b"":
                kind, length, serial, size = head[1], *struct.unpack("<III", head[4:16])
                fields = _fields(self._receive(-(-size // 8) * 8)[:size])
                body = self._receive(length)
                if kind == _CALL:
                    self._answer(fields, serial, body)

    def _answer(self, asked: Fields, serial: int, body: bytes) -> None:
        reply: Fields = {_REPLY_TO: serial, _TO: asked[_FROM]}
        if asked[_MEMBER] == "Notify":
            program, at = _read(body, 0)
            _, at = _read(body, at + (-at % 4) + 4)
            title, at = _read(body, at)
            text, _ = _read(body, at)
            self.notices.append(Notice(program, title, text))
            self._send(_REPLY, reply | {_SIGNATURE: "u"}, struct.pack("<I", len(self.notices)))
        elif asked[_MEMBER] == "GetServerInformation":
            words = b""
            for word in ("stand-in", "nobody", "1", "1.2"):
                words += b"\0" * (-len(words) % 4) + _text(word)
            self._send(_REPLY, reply | {_SIGNATURE: "ssss"}, words)
        else:
            self._send(_REFUSAL, reply | {_ERROR: f"{BUS}.Error.UnknownMethod"})

    def _send(self, kind: int, fields: Fields, body: bytes = b"") -> None:
        self._serial += 1
        encoded = b""
        for code, value in fields.items():
            encoded += b"\0" * (-len(encoded) % 8) + _field(code, value)
        head = struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), self._serial, len(encoded))
        self._socket.sendall(head + encoded + b"\0" * (-len(encoded) % 8) + body)

    def _receive(self, length: int) -> bytes:
        got = b""
        while len(got) < length:
            more = self._socket.recv(length - len(got))
            if not more:
                return b""
            got += more
        return got


def _text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode() + b"\0"


def _aligned(before: bytes, width: int, value: int) -> bytes:
    return b"\0" * (-len(before) % width) + struct.pack("<I", value)


def _field(code: int, value: str | int) -> bytes:
    kind = _TYPES[code]
    head = bytes((code, 1)) + kind.encode() + b"\0"
    if isinstance(value, int):
        return head + struct.pack("<I", value)
    if kind == "g":
        return head + bytes((len(value),)) + value.encode() + b"\0"
    return head + _text(value)


def _fields(encoded: bytes) -> Fields:
    fields: Fields = {}
    at = 0
    while at < len(encoded):
        at += -at % 8
        code, kind = encoded[at], chr(encoded[at + 2])
        at += 4
        if kind == "u":
            fields[code], at = struct.unpack_from("<I", encoded, at)[0], at + 4
        elif kind == "g":
            fields[code], at = encoded[at + 1 : at + 1 + encoded[at]].decode(), at + encoded[at] + 2
        else:
            fields[code], at = _read(encoded, at)
    return fields


def _read(encoded: bytes, at: int) -> tuple[str, int]:
    at += -at % 4
    length = struct.unpack_from("<I", encoded, at)[0]
    return encoded[at + 4 : at + 4 + length].decode(), at + 4 + length + 1
