"""Claims about the machine that this process runs on."""

import pytest

from wakeful.linux.machine import file_system_of

MOUNTS = b"""\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / /home rw,nosuid shared:20 - nfs4 server:/home rw
41 22 0:36 / /home/local\\040disk rw - xfs /dev/vdb rw
42 41 0:37 / /home/local\\040disk rw - fuse.sshfs other:/ rw
43 22 0:38 /volumes/state /state rw master:3 - btrfs /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/srv/wakeful.db", "ext4"),
        (b"/home/me/.local/state/wakeful/wakeful.db", "nfs4"),
        (b"/homes/me/wakeful.db", "ext4"),
        (b"/home/local disk/wakeful.db", "fuse.sshfs"),
        (b"/state/wakeful.db", "btrfs"),
    ],
)
def test_a_path_is_on_the_newest_mount_above_it(path: bytes, kind: str) -> None:
    """The deepest one counts; of two at one point the later one."""
    assert file_system_of(path, MOUNTS) == kind


@pytest.mark.parametrize("mounts", [b"", b"garbage\n- -\n", b"22 1 253:0 / /other rw - ext4 /dev/vda rw\n"])
def test_without_a_mount_nothing_is_known(mounts: bytes) -> None:
    assert not file_system_of(b"/srv/wakeful.db", mounts)
