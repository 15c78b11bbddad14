"""A real daemon and raw connections to it: the test writes every byte of a request."""

import os
import re
import resource
import socket
from pathlib import Path

from support.daemon_process import RunningDaemon

ANSWER_SECONDS_MAX = 30


class RawHttpDaemon(RunningDaemon):
    """A daemon with a limit of descriptors, if one is given, and connections to it."""

    descriptors_max: int | None = None

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._wires: list[RawConnection] = []

    def argv(self, *arguments: str) -> list[str]:
        words = super().argv(*arguments)
        few = self.descriptors_max
        return words if few is None else ["prlimit", f"--nofile={few}:{few}", *words]

    @property
    def address(self) -> tuple[str, int]:
        listening = self.run("status", "--json").json["daemon"]["listening"]
        found = re.search(r"http://\[?([^\]]*)\]?:(\d+)", " ".join(listening))
        assert found is not None, listening
        return found[1], int(found[2])

    @property
    def token(self) -> bytes:
        return (self.home / "state" / "token").read_bytes().strip()

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    @property
    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int | None:
        for wire in self._wires:
            wire.close()
        return super().end()

    def wire(self, *, tcp: bool, token: bytes | None = None) -> "RawConnection":
        """A connection to the port, with the daemon's token unless another is given, or to the socket."""
        made = (
            RawConnection(self, tcp=self.address, token=self.token if token is None else token)
            if tcp
            else RawConnection(self)
        )
        self._wires.append(made)
        return made

    def unix(self) -> socket.socket:
        door = socket.socket(socket.AF_UNIX)
        door.settimeout(ANSWER_SECONDS_MAX)
        door.connect(str(self.socket))
        return door


class RawConnection:
    """A keep-alive connection that sends requests byte by byte, and reconnects when it is closed."""

    def __init__(
        self, house: RawHttpDaemon, *, tcp: tuple[str, int] | None = None, token: bytes = b""
    ) -> None:
        self._house = house
        self._tcp = tcp
        self.host = b"localhost" if tcp is None else b"127.0.0.1:%d" % tcp[1]
        self.proof = b"Authorization: Bearer %b\r\n" % token if token else b""
        self._connection: socket.socket | None = None

    @property
    def name(self) -> str:
        return "socket" if self._tcp is None else "port"

    def ask(self, method: str, target: bytes, body: bytes = b"", extra: bytes = b"") -> tuple[int, bytes]:
        """Status and body; 0 if the connection was closed without an answer."""
        head = b"%b %b HTTP/1.1\r\nHost: %b\r\n%b%b" % (
            method.encode(),
            target,
            self.host,
            b"" if b"Authorization:" in extra else self.proof,
            extra,
        )
        if method not in {"GET", "HEAD"} or body:
            head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        return self.send(head + b"\r\n" + body, has_body=method != "HEAD")

    def send(self, request: bytes, *, has_body: bool = True) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._open()
        try:
            self._connection.sendall(request)
            answer = self._read(self._connection, has_body=has_body)
        except (BrokenPipeError, ConnectionResetError):
            answer = 0, b"", True
        status, body, is_over = answer
        if is_over:
            self.close()
        return status, body

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> socket.socket:
        if self._tcp is None:
            return self._house.unix()
        return socket.create_connection(self._tcp, timeout=ANSWER_SECONDS_MAX)

    @staticmethod
    def _read(connection: socket.socket, *, has_body: bool) -> tuple[int, bytes, bool]:
        said = b""
        while b"\r\n\r\n" not in said:
            piece = connection.recv(65536)
            if not piece:
                return 0, b"", True
            said += piece
        head, _, body = said.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        while has_body and length is not None and len(body) < int(length[1]):
            piece = connection.recv(65536)
            if not piece:
                break
            body += piece
        return int(head[9:12]), body, b"connection: close" in head.lower() or length is None
