"""One HTTP/1.1 request over the Unix socket and its whole answer; then the connection closes.

The fast path imports this module first, so it must never import more than `_socket` and `time`. The
asynchronous client uses the same encoding and parsing. Callers interpret the answer; every failure is an
OSError.
"""

import _socket
from time import monotonic

# 10,000 records have 15 MB.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
READ_BYTES = 1 << 18


class BrokenAnswer(OSError):
    """The HTTP response is incomplete."""


class TruncatedAnswer(BrokenAnswer):
    """The peer closed the connection before the answer was whole."""


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
    """Send one request and read the whole answer within the time. Raises OSError, TimeoutError included."""
    deadline = monotonic() + timeout_seconds
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(socket_path)
        # sendall keeps to the socket's timeout as a whole.
        connection.sendall(encode_request(method, target, body, key))
        return parse_reply(_read_all(connection, deadline), peer_pid(connection))
    finally:
        connection.close()


def peer_pid(connection: _socket.socket) -> int:
    """The process that listens on the other side: the first four bytes of struct ucred."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little", signed=True)


def encode_request(method: str, target: str, body: bytes, key: str | None) -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    if key is not None:
        head += f"Idempotency-Key: {key}\r\n"
    return head.encode("ascii") + b"\r\n" + body


def _read_all(connection: _socket.socket, deadline: float) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while chunk := connection.recv(READ_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        require_bounded(total)
        left_seconds = deadline - monotonic()
        if left_seconds <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_seconds)
    return b"".join(chunks)


def require_bounded(total: int) -> None:
    """Raises BrokenAnswer for an answer that has this many bytes, if that is too many."""
    if total > ANSWER_BYTES_MAX:
        raise BrokenAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")


def parse_reply(raw: bytes, server_pid: int) -> HttpReply:
    """Raises BrokenAnswer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if raw and not (version.startswith("HTTP/1.") and status.isdecimal()):
        raise BrokenAnswer("the answer is not HTTP")
    # Wakeful's server gives every answer a length: one that does not match was cut off.
    if headers.get("content-length") != str(len(body)):
        raise TruncatedAnswer("it ended before it had answered")
    return HttpReply(int(status), headers, body, server_pid)
