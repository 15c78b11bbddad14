"""Claims about processes that leave the service's control group: those that must outlive it, with their
children, and no others."""

from pathlib import Path

from wakeful.linux.systemd import agent_families, group_of

OWN, SERVER, PANE, HEADLESS, TOOL, QUESTION, GATEWAY = 100, 200, 201, 300, 301, 400, 500


def test_whoever_is_to_outlive_us_is_moved_with_its_family() -> None:
    """A tmux server that left us and a launched agent, each with its children; questions and the gateway stay."""
    parents = {
        OWN: 1,
        SERVER: 1,
        PANE: SERVER,
        HEADLESS: OWN,
        TOOL: HEADLESS,
        QUESTION: OWN,
        GATEWAY: OWN,
        GATEWAY + 1: GATEWAY,
    }
    assert agent_families(parents, OWN, {HEADLESS}) == {SERVER: (SERVER, PANE), HEADLESS: (HEADLESS, TOOL)}


def test_only_the_service_has_a_group_to_leave() -> None:
    """In a terminal or a container no process is moved; both versions of control groups are read."""
    mixed = "9:name=systemd:/user.slice/app.slice/wakeful.service\n0::/user.slice/app.slice/wakeful.service\n"
    assert group_of(mixed) == Path("/sys/fs/cgroup/systemd/user.slice/app.slice/wakeful.service/cgroup.procs")
    assert group_of("0::/a/wakeful.service\n") == Path("/sys/fs/cgroup/a/wakeful.service/cgroup.procs")
    assert group_of("0::/user.slice/session-2.scope\n") is None
