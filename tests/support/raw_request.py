"""One request to a daemon, by hand. As a program it sends an empty body to each path and prints the status codes."""

import http.client
import json
import socket
import sys
from pathlib import Path
from typing import NamedTuple

SECONDS_MAX = 30.0


class Answer(NamedTuple):
    status: int
    body: bytes


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS_MAX)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS_MAX)
        self.sock.connect(self._path)


def ask_unix(path: Path, method: str, target: str, body: bytes = b"") -> Answer:
    return _asked(_Unix(str(path)), method, target, body, {"host": "localhost"})


def ask_tcp(port: int, token: str, method: str, target: str, body: bytes = b"") -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
    return _asked(connection, method, target, body, {"authorization": f"Bearer {token}"})


def _asked(
    connection: http.client.HTTPConnection, method: str, target: str, body: bytes, headers: dict[str, str]
) -> Answer:
    try:
        connection.request(method, target, body, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    finally:
        connection.close()


def _codes(place: str, words: list[str]) -> list[str]:
    if place.isdigit():
        token, *paths = words
        answers = [ask_tcp(int(place), token, "POST", path, b"{}") for path in paths]
    else:
        answers = [ask_unix(Path(place), "POST", path, b"{}") for path in words]
    return [json.loads(each.body).get("code", str(each.status)) for each in answers]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_codes(sys.argv[1], sys.argv[2:])))
