"""The command's entry: the questions scripts ask most often are answered before any library is imported.

Nothing is decided here. Whatever is not exactly such a question, or not exactly a good answer, goes to the full
command, which asks again and explains.
"""

import os
import sys

# How scripts and hooks ask: one session's view, the list, the daemon's own status.
_VIEWS = ("health", "status", "inspect", "why")
_LIST = "/api/sessions?include_health=true"
_LISTS = {("session", "list"): _LIST, ("session", "ls"): _LIST, ("ls",): _LIST, ("status",): "/api/status"}
# parse_session_id decides; this only keeps everything odd away from the fast path.
_ID_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@+-"
# A busy daemon is asked again, with more patience, by the full command.
_FAST_SECONDS_MAX = 3.0


def main() -> int:
    """Run `wakeful` with the arguments of this process; its exit code."""
    try:
        target = _target(sys.argv[1:])
        code = _answer(target) if target is not None else None
    except KeyboardInterrupt:
        # Only a command that was asked for JSON gets here with a question under way.
        return _print_error("interrupted", "interrupted by a signal", 130, retryable=True)
    if code is not None:
        # Nothing is open and nothing is buffered: taking the interpreter apart would cost 2 ms of 19.
        os._exit(code)
    from wakeful.cli.app import run

    return run()


def _target(words: list[str]) -> str | None:
    """The path to ask the daemon for, if the command line is one of the few simple ones."""
    named = _strip_json_flag(words)
    if named is None:
        return None
    if tuple(named) in _LISTS:
        return _LISTS[tuple(named)]
    if len(named) != 3 or named[0] != "session" or named[1] not in _VIEWS:
        return None
    session_id = named[2]
    odd = session_id.strip(_ID_CHARS) or len(session_id) > 200 or session_id[:1] in ("", ".", "-")
    return None if odd or ".." in session_id else f"/api/sessions/{session_id}/{named[1]}"


def _strip_json_flag(words: list[str]) -> list[str] | None:
    """The words without the flag for JSON; None if it is not there, or stands before the command."""
    for flag in (["--json"], ["-o", "json"]):
        for at in range(1, len(words) - len(flag) + 1):
            if words[at : at + len(flag)] == flag:
                # `session --json list` is a mistake the full command explains.
                command_ends = 2 if words[0] == "session" else 1
                return words[:at] + words[at + len(flag) :] if at >= command_ends else None
    return None


def _answer(target: str) -> int | None:
    """Print the daemon's answer; the exit code it names. None if there was no good answer."""
    try:
        from wakeful.client.wire import send_request
        from wakeful.config.paths import StatePaths

        reply = send_request(
            StatePaths.from_environ(os.environ).socket, target, timeout_seconds=_FAST_SECONDS_MAX
        )
        code = int(reply.headers["x-wakeful-exit"])
    except Exception:  # noqa: BLE001 - the full command meets the same trouble and says what it is
        return None
    if reply.status != 200:
        return None
    return _print(reply.body, code)


def _print(body: bytes, code: int) -> int:
    left = body + b"\n"
    try:
        while left:
            left = left[os.write(1, left) :]
    except BrokenPipeError:
        return 141
    except OSError as problem:
        # A full disk or a closed descriptor.
        return _print_error("output-lost", f"standard output: {problem.strerror}", 3)
    return code


def _print_error(code: str, detail: str, exit_code: int, *, retryable: bool = False) -> int:
    """One line of JSON, as was asked for; the exit code."""
    said = f'"code": "{code}", "detail": "{detail}", "exit_code": {exit_code}, "retryable": {str(retryable).lower()}'
    try:
        os.write(2, f"{{{said}}}\n".encode())
    except OSError:
        # Standard error is closed; the exit code says it.
        return exit_code
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
