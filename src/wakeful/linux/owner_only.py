"""Opens files that only their owner can read, whatever the umask: `open(path, "wb", opener=owner_only)`."""

import os


def owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
