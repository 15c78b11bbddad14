"""Chooses the environment variables of programs that Wakeful starts. Pure.

There is an allow-list of names for each kind of program; a program whose caller chose every variable needs
none. No setting of Wakeful passes: a setting can be given as `WAKEFUL_SECTION__KEY`, and some are secrets.
Values that contain such a secret are left out under other names, too.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

# Every program needs these to find its files, its language and its user.
USUAL: Final = (
    *("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*"),
)
# tmux, git, docker, systemctl, notify-send and a browser also need a terminal, a display, an address.
HELPER: Final = (
    *USUAL,
    *("TERM", "COLORTERM", "TERMINFO", "TERMINFO_DIRS", "NO_COLOR", "TMUX", "TMUX_PANE", "TMUX_TMPDIR"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "BROWSER"),
    *("SSH_AUTH_SOCK", "SSH_CONNECTION", "SSH_TTY", "PWD", "PM2_HOME", "LD_LIBRARY_PATH"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "WAKEFUL_HOME", "WAKEFUL_CONFIG", "WAKEFUL_DEBUG"),
)
# Only GitHub's command line gets its user's token.
GH: Final = (*HELPER, "GH_*", "GITHUB_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
# For an agent's client, the models it may call, and the tools that agents use.
AGENT: Final = (
    *HELPER,
    *("ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "DISABLE_*", "IS_SANDBOX", "MCP_*", "MAX_*_TOKENS"),
    *("ENABLE_*", "FORCE_COLOR", "OTEL_*", "RUST_LOG"),
    *("BASH_*_TIMEOUT_MS", "BASH_MAX_*", "API_TIMEOUT_MS", "USE_BUILTIN_RIPGREP"),
    *("AZURE_OPENAI_*", "OPENROUTER_*", "GEMINI_*", "GROQ_*", "MISTRAL_*", "DEEPSEEK_*", "XAI_*", "OLLAMA_*"),
    *("AWS_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_*", "CLOUD_ML_REGION", "VERTEX_REGION_*"),
    *("NODE_*", "NVM_*", "NPM_CONFIG_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NIX_*"),
    *("VIRTUAL_ENV", "CONDA_*", "PYENV_*", "UV_*", "PYTHON*", "PIP_*"),
    *("CARGO_*", "RUSTUP_*", "GOPATH", "GOROOT", "GOFLAGS", "GOPROXY", "JAVA_HOME"),
    *("EDITOR", "VISUAL", "PAGER", "LESS", "GIT_AUTHOR_*", "GIT_COMMITTER_*", "GIT_SSH*"),
    *("GPG_*", "GNUPGHOME", "SSH_AGENT_PID"),
)
# A setting, or a name that looks like one with a forgotten underscore.
_WAKEFUL_SETTING: Final = re.compile(r"WAKEFUL_(?:\w+__\w+|\w*(?:TOKEN|SECRET|PASSWORD|URLS?)\w*)\Z")
# A shorter secret is compared as a whole: "a" is in almost every value.
_PART_CHARS_MIN: Final = 6
# A word of an address that is this long and is no host name is a secret by itself, such as a webhook's token.
_TOKEN_CHARS_MIN: Final = 20
_PASSWORD: Final = re.compile(r"://[^/@:]*:([^/@]+)@")
_SEPARATORS: Final = re.compile(r"[/:@?&=,;#]+")
# The path of these addresses is a socket or a database: the folder of a socket may be in PATH, too.
_WITHOUT_TOKENS: Final = re.compile(
    r"(?:rediss?|unix|file|postgres(?:ql)?|mongodb(?:\+srv)?|mysql|amqps?)(?:\+\w+)?://"
)


def select_variables(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    allowed = _compile_patterns(tuple(patterns))
    return {name: value for name, value in environ.items() if allowed.fullmatch(name) is not None}


@lru_cache(maxsize=32)
def _compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    words = (re.escape(each).replace(r"\*", ".*").replace(r"\?", ".") for each in patterns)
    return re.compile("|".join(words), re.DOTALL)


def without_secrets(environ: Mapping[str, str], withheld: Iterable[str]) -> dict[str, str]:
    """The variables that are no settings of Wakeful and whose values contain none of the withheld words."""
    words = tuple(withheld)
    return {
        name: value
        for name, value in environ.items()
        if _WAKEFUL_SETTING.match(name) is None
        and not any(each == value or (len(each) >= _PART_CHARS_MIN and each in value) for each in words)
    }


def secret_parts(secret: str) -> frozenset[str]:
    """A secret and its parts that are secrets by themselves: the password and the tokens of an address."""
    from urllib.parse import unquote  # noqa: PLC0415 - commands that start a program know no secret

    parts = () if _WITHOUT_TOKENS.match(secret) else _SEPARATORS.split(secret)
    words = {secret, *(each for each in parts if len(each) >= _TOKEN_CHARS_MIN and "." not in each)}
    if (password := _PASSWORD.search(secret)) is not None:
        words.add(password[1])
    return frozenset((words | {unquote(each) for each in words}) - {""})
