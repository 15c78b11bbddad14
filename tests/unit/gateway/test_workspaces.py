"""Claims about where a conversation of the gateway is held."""

from pathlib import Path

import pytest

from wakeful.config.gateway import ChatConfig, GatewayConfig, PermissionMode, Secret
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.gateway.process import BadBotToken, GatewayNotSetUp, bot_of
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.workspaces import Workspaces

KEY = ConversationKey("chat:-100:thread:7")
OTHER = ConversationKey("chat:5:thread:main")
ENVIRON = {
    "PATH": "/bin",
    "WAKEFUL_GATEWAY__TOKEN": "1:secret",
    "WAKEFUL_ALERTS__URLS": "secret",
    "WAKEFUL_HOME": "/w",
}


def seats(home: Path, *chats: ChatConfig) -> Workspaces:
    return Workspaces(Config(gateway_chats=chats), StatePaths(str(home)), ENVIRON)


def test_a_chat_without_a_table_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    """Without other files next to it, and the agent asks for every permission."""
    workspace = seats(tmp_path).workspace(KEY)
    assert workspace.cwd == str(tmp_path / "chats" / "chat--100-thread-7")
    assert Path(workspace.cwd).stat().st_mode & 0o777 == 0o700
    assert (workspace.provider, workspace.argv) == ("claude", ("claude",))


def test_what_is_wakefuls_own_is_not_given_to_agents(tmp_path: Path) -> None:
    """The bot's token above all."""
    assert seats(tmp_path).workspace(KEY).environ == {"PATH": "/bin", "WAKEFUL_HOME": "/w"}


def test_a_table_says_folder_provider_and_mode_and_the_default_the_rest(tmp_path: Path) -> None:
    """What a chat leaves open is the default's; what is written for one is no other's."""
    default = ChatConfig(key="default", folder="/srv/shop", provider="codex")
    own = ChatConfig(key=KEY, permission_mode=PermissionMode.PLAN)
    found = seats(tmp_path, default, own)
    workspace = found.workspace(KEY)
    assert (workspace.cwd, workspace.provider) == ("/srv/shop", "codex")
    assert workspace.argv == ("codex", "--skip-git-repo-check", "-s", "read-only")
    assert found.workspace(OTHER).argv[-1] == "workspace-write"


def test_a_folder_that_is_not_there_is_known_before_anybody_writes(tmp_path: Path) -> None:
    """Those of their own are made when they are needed."""
    lost = ChatConfig(key=KEY, folder=str(tmp_path / "lost"))
    found = seats(tmp_path, ChatConfig(key="default", folder=str(tmp_path)), lost, ChatConfig(key=OTHER))
    assert list(found.missing_folders()) == [lost]


def test_a_chat_is_no_freer_than_the_default_unless_it_says_so(tmp_path: Path) -> None:
    """A table that only names a folder keeps the default's mode."""
    default = ChatConfig(key="default", permission_mode=PermissionMode.PLAN)
    own = ChatConfig(key=KEY, folder="/srv/shop")
    assert seats(tmp_path, default, own).workspace(KEY).argv == ("claude", "--permission-mode", "plan")


def test_claudes_mode_is_a_flag(tmp_path: Path) -> None:
    """Claude Code knows the words itself."""
    chat = ChatConfig(key=KEY, folder="/srv", permission_mode=PermissionMode.ACCEPT_EDITS)
    assert seats(tmp_path, chat).workspace(KEY).argv == ("claude", "--permission-mode", "acceptEdits")


def test_a_token_is_a_bots_or_none() -> None:
    """Without one there is nothing to run; anything else is refused before it is sent anywhere."""
    with pytest.raises(GatewayNotSetUp):
        bot_of(Config())
    for wrong in ("secret", ":secret", "12:", "a:b"):
        with pytest.raises(BadBotToken):
            bot_of(Config(gateway=GatewayConfig(token=Secret(wrong))))
    assert bot_of(Config(gateway=GatewayConfig(token=Secret("700001:AA")))) == "700001"
