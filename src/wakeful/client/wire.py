"""Sends one HTTP/1.1 request over the Unix socket and reads the whole answer; then the connection closes.

The fast path imports this module first, so it must never import more than `_socket` and `time`. Callers
interpret the answer; every failure is an OSError.
"""

import _socket
from time import monotonic

# 10,000 records have 15 MB.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 1 << 18


class BrokenAnswer(OSError):
    """What came back is not a whole HTTP answer."""


class TruncatedAnswer(BrokenAnswer):
    """Whoever was asked ended before the answer was whole."""


class HttpReply:
    """A whole answer. Header names are lower case."""

    __slots__ = ("body", "headers", "server_pid", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes, server_pid: int) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.server_pid = server_pid


def send_request(
    socket_path: str,
    target: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    key: str | None = None,
    timeout_seconds: float,
) -> HttpReply:
    """Send one request, read the whole answer. Raises OSError, TimeoutError included; never outlasts its time."""
    deadline = monotonic() + timeout_seconds
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(socket_path)
        # Whoever listens on the socket: the first four bytes of struct ucred.
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        # sendall keeps to the socket's timeout as a whole.
        connection.sendall(_encode_request(method, target, body, key))
        raw = _read_all(connection, deadline)
    finally:
        connection.close()
    return _parse_reply(raw, int.from_bytes(peer[:4], "little", signed=True))


def _encode_request(method: str, target: str, body: bytes, key: str | None) -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    if key is not None:
        head += f"Idempotency-Key: {key}\r\n"
    return head.encode("ascii") + b"\r\n" + body


def _read_all(connection: _socket.socket, deadline: float) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while chunk := connection.recv(_READ_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        if total > ANSWER_BYTES_MAX:
            raise BrokenAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        left_seconds = deadline - monotonic()
        if left_seconds <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_seconds)
    return b"".join(chunks)


def _parse_reply(raw: bytes, server_pid: int) -> HttpReply:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    version, _, rest = first.partition(" ")
    status = rest[:3]
    # Our server gives every answer a length: one that does not match was cut off on its way.
    whole = headers.get("content-length") == str(len(body))
    if raw and not (version.startswith("HTTP/1.") and status.isdecimal()):
        raise BrokenAnswer("the answer is not HTTP")
    if not whole:
        raise TruncatedAnswer("it ended before it had answered")
    return HttpReply(int(status), headers, body, server_pid)
