"""Environments of all programs that Wakeful starts: one function for each kind of program, and no other way.

The secrets to withhold are known after the configuration is read: see `configure_environments`.
"""

from collections.abc import Iterable, Mapping

from wakeful.core.environment_allowlist import (
    AGENT,
    GH,
    HELPER,
    USUAL,
    secret_parts,
    select_variables,
    without_secrets,
)


class _Withholding:
    def __init__(self) -> None:
        self.withheld_secrets: frozenset[str] = frozenset()
        self.passed_patterns: tuple[str, ...] = ()


_withholding = _Withholding()


def configure_environments(secrets: Iterable[str], passed: Iterable[str] = ()) -> None:
    """Withhold values that contain one of these secrets; give agents and hooks the variables that `passed` matches."""
    _withholding.withheld_secrets = frozenset(word for each in secrets for word in secret_parts(each))
    _withholding.passed_patterns = tuple(passed)


def helper_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For tmux, git, docker, systemctl, notify-send and similar programs."""
    return given_environ(select_variables(environ, HELPER))


def gh_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For `gh`, which gets its user's token."""
    return given_environ(select_variables(environ, GH))


def hook_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For a program that the configuration names."""
    return given_environ(select_variables(environ, (*HELPER, *_withholding.passed_patterns)))


def agent_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For an agent that the daemon or the gateway starts from its own environment."""
    return given_environ(select_variables(environ, (*AGENT, *_withholding.passed_patterns)))


def declared_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For an agent of the configuration: the variables that it gets without naming them in `env`."""
    return given_environ(select_variables(environ, USUAL))


def given_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For a program whose caller chose every variable: a person's own shell, or one of the functions above."""
    return without_secrets(environ, _withholding.withheld_secrets)


def kept_back(environ: Mapping[str, str]) -> set[str]:
    """The names that no other program may get: Wakeful's settings, and values that contain one of its secrets."""
    return environ.keys() - given_environ(environ).keys()


def own_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Only for Wakeful's daemon and gateway, which read their settings there."""
    return dict(environ)


def leaked_names(held: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The variables of a tmux server that it must not pass on, or that it inherited from an earlier daemon.

    A variable that a person set on the server, which the daemon's environment does not have, stays.
    """
    harmless = helper_environ(held)
    inherited = {name for name, value in held.items() if environ.get(name) == value}
    allowed = given_environ(held)
    return sorted(
        name for name in held if name not in allowed or (name in inherited and name not in harmless)
    )
