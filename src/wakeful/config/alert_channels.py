"""Builds the alert channels that the configuration sets up: Telegram, apprise addresses, the desktop.

Nothing is connected or imported here; a channel does both with its first message.
"""

from collections import Counter
from collections.abc import Mapping

from wakeful.alerts.delivery import Messenger
from wakeful.alerts.model import AlertKind, AlertRules
from wakeful.config.schema import AlertsConfig
from wakeful.integrations.apprise import AppriseMessenger, scheme
from wakeful.integrations.desktop import DesktopMessenger, has_desktop
from wakeful.integrations.telegram import TelegramMessenger


def open_channels(alerts: AlertsConfig, environ: Mapping[str, str]) -> list[Messenger]:
    """The channels that are set up, each under a unique name."""
    channels: list[Messenger] = []
    if alerts.telegram_token:
        channels.append(TelegramMessenger(alerts.telegram_token, alerts.telegram_chat, alerts.telegram_api))
    names = Counter(each.name for each in channels)
    for url in alerts.urls:
        name = scheme(url)
        names[name] += 1
        channels.append(AppriseMessenger(url, name if names[name] == 1 else f"{name}-{names[name]}"))
    if alerts.desktop and has_desktop(environ):
        channels.append(DesktopMessenger())
    return channels


def channel_settings(alerts: AlertsConfig) -> tuple[object, ...]:
    """What the channels are made of: equal settings give equal channels."""
    return alerts.telegram_token, alerts.telegram_chat, alerts.telegram_api, alerts.urls, alerts.desktop


def alert_rules_of(alerts: AlertsConfig) -> AlertRules:
    return AlertRules(
        kinds=frozenset(kind for kind in AlertKind if getattr(alerts, kind)),
        needs_you_seconds=alerts.needs_you_seconds,
        cooldown_seconds=alerts.cooldown_seconds,
    )
