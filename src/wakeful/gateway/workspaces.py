"""Maps each chat conversation to its provider, folder, flags and environment, as the configuration says.

An agent gets selected variables of the gateway's environment, and never a setting or secret of Wakeful, such as
the bot's token.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from wakeful.client.api import Workspace
from wakeful.config.gateway import DEFAULT_CHAT, ChatConfig, PermissionMode
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.integrations.providers import provider as client
from wakeful.linux.child_environment import agent_environ


class Workspaces:
    def __init__(self, config: Config, paths: StatePaths, environ: Mapping[str, str]) -> None:
        self._config = config
        self._folders = Path(paths.state_dir) / "chats"
        self._chats = {each.key: each for each in config.gateway_chats}
        self.environ = agent_environ(environ)

    def chat(self, key: ConversationKey) -> ChatConfig:
        """The configuration of this chat; fields that it leaves open have the default's values."""
        default = self._chats.get(DEFAULT_CHAT, ChatConfig(key=DEFAULT_CHAT))
        own = self._chats.get(key)
        if own is None:
            return default
        return ChatConfig(
            key=own.key,
            folder=own.folder or default.folder,
            permission_mode=own.permission_mode or default.permission_mode,
            provider=own.provider or default.provider,
            send_from=own.send_from or default.send_from,
        )

    def provider(self, key: ConversationKey) -> str:
        return self.chat(key).provider or self._config.gateway.provider

    def workspace(self, key: ConversationKey) -> Workspace:
        """Creates the folder, unless the configuration names it: that one may be missing."""
        chat = self.chat(key)
        provider = self.provider(key)
        name = key.replace(":", "-")
        folder = Path(chat.folder) if chat.folder else self._folders / name
        if not chat.folder:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = chat.permission_mode or PermissionMode.DEFAULT
        return Workspace(
            provider,
            str(folder),
            (*self._config.gateway_providers[provider].argv, *client(provider).flags(mode)),
            self.environ,
            name,
        )

    def missing_folders(self) -> Iterator[ChatConfig]:
        """Chats whose folder, as the configuration names it, is not there."""
        return (each for each in self._chats.values() if each.folder and not Path(each.folder).is_dir())
