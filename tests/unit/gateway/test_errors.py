"""The classifier and the two tiers of auth texts, for both providers."""

import re
from pathlib import Path

import pytest

from wakeful.control.login import SHORT_CHARS_MAX, AuthTier, auth_tier
from wakeful.control.turn_events import Ended, Gone
from wakeful.gateway.rules.errors import (
    AUTH_REQUIRED,
    MEANINGS,
    USAGE_LIMITED,
    USER_TEXTS,
    Category,
    End,
    NotBegun,
    Reason,
    Rejected,
    TimedOut,
    classify,
    user_words,
)
from wakeful.judging.events import Failure

# What the two clients really say.
CLAUDE_401 = "Failed to authenticate. API Error: 401 OAuth token has expired. Please obtain a new token"
CODEX_401 = (
    "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://127.0.0.1:1/v1/responses"
)


@pytest.mark.parametrize(
    ("end", "category", "pattern"),
    [
        (TimedOut(), Category.TIMEOUT, "timeout"),
        (Gone("Killed"), Category.PROCESS_CRASH, "process_crash"),
        (Gone(""), Category.PROCESS_CRASH, "process_crash"),
        (NotBegun("no such folder"), Category.PROCESS_CRASH, "process_crash"),
        (Gone("starting\nNot logged in · Please run /login"), Category.PROCESS_CRASH, AUTH_REQUIRED),
        (Gone("MCP server github failed to start"), Category.MCP_TOOL_FAILURE, "mcp_tool_failure"),
        (Ended("API Error: 500", Failure.PROVIDER), Category.UNKNOWN, "unknown"),
        (Ended("Request timed out", Failure.UNKNOWN), Category.TIMEOUT, "timeout"),
        (Ended("API Error: The operation timed out.", Failure.PROVIDER), Category.TIMEOUT, "timeout"),
        (Ended("idle timeout waiting for SSE", Failure.PROVIDER), Category.TIMEOUT, "timeout"),
        (
            Ended("MCP error -32000: Connection closed", Failure.UNKNOWN),
            Category.MCP_TOOL_FAILURE,
            "mcp_tool_failure",
        ),
        (Ended(CLAUDE_401, Failure.AUTH), Category.UNKNOWN, AUTH_REQUIRED),
        (Ended(CODEX_401, Failure.AUTH), Category.UNKNOWN, AUTH_REQUIRED),
        (Ended("words of a version to come", Failure.AUTH), Category.UNKNOWN, AUTH_REQUIRED),
        (Ended(CODEX_401, Failure.PROVIDER), Category.UNKNOWN, AUTH_REQUIRED),
        (Ended("Claude AI usage limit reached", Failure.LIMIT), Category.UNKNOWN, USAGE_LIMITED),
        (Rejected(Reason.EMPTY), Category.INVALID_RESPONSE, "invalid_response"),
        (Rejected(Reason.LOOP), Category.INVALID_RESPONSE, "invalid_response"),
        (Rejected(Reason.CONFUSION), Category.CONFUSION, "confusion"),
    ],
)
def test_every_end_has_its_category(end: End, category: Category, pattern: str) -> None:
    """How the turn ended decides, and for a failure the client's own words."""
    fault = classify(end)
    assert fault is not None
    assert (fault.category, fault.pattern) == (category, pattern)


@pytest.mark.parametrize("text", ["MCP server github timed out", CLAUDE_401, "Not logged in"])
def test_what_a_model_wrote_is_never_read(text: str) -> None:
    """A turn that ended well is no failure, whatever its answer speaks of."""
    assert classify(Ended(text)) is None


def test_a_missing_login_is_not_the_breakers_business() -> None:
    """Everything else counts for it."""
    fault = classify(Ended(CLAUDE_401, Failure.AUTH))
    crash = classify(Gone(""))
    assert fault is not None
    assert crash is not None
    assert (fault.counts_for_breaker, crash.counts_for_breaker) == (False, True)


@pytest.mark.parametrize("text", [CLAUDE_401, CODEX_401])
def test_what_the_user_is_told_holds_nothing_of_the_clients_words(text: str) -> None:
    """A fixed sentence for each category."""
    for failure in Failure:
        fault = classify(Ended(text, failure))
        assert fault is not None
        said = user_words(fault)
        assert "401" not in said
        assert "login" not in said.lower()


def test_the_categories_are_closed() -> None:
    """Six words; dashboards depend on them, and each is explained twice."""
    assert [*Category] == [
        "timeout",
        "process_crash",
        "mcp_tool_failure",
        "invalid_response",
        "confusion",
        "unknown",
    ]
    assert set(MEANINGS) == set(USER_TEXTS) == set(Category)


@pytest.mark.parametrize(
    "text",
    [
        "Not logged in · Please run /login",
        "Please run /login · API Error: 403 forbidden",
        "Invalid API key · Fix external API key",
        "Your account does not have access to Claude. Please login again or contact your administrator.",
        CLAUDE_401,
        CODEX_401,
        "Missing environment variable: `FAKE_KEY`.",
    ],
)
def test_what_only_a_client_says_is_sure(text: str) -> None:
    """The sentences of both clients, at the beginning of a short text."""
    assert auth_tier(text) is AuthTier.SURE
    assert auth_tier(f"{text} {'x' * SHORT_CHARS_MAX}") is None
    assert auth_tier(f"The log says: {text}") is not AuthTier.SURE


@pytest.mark.parametrize("text", ["API Error: 401", "Error: authentication failed", "HTTP 403 Forbidden"])
def test_an_error_about_credentials_is_likely(text: str) -> None:
    """Worth a check."""
    assert auth_tier(text) is AuthTier.LIKELY


@pytest.mark.parametrize(
    "text",
    [
        "The endpoint answers 401 Unauthorized because the token has expired.",
        "I added the login page; users who are not logged in see it first.",
        "Error handling is done: every 500 is retried.",
        "To sign in, open the page and press the button.",
        "Yes, 403 is right there.",
    ],
)
def test_an_answer_about_logins_is_an_answer(text: str) -> None:
    """Agents are asked about other people's logins every day."""
    assert auth_tier(text) is None


def test_the_texts_that_the_guide_quotes_are_the_ones_that_people_see() -> None:
    """A person searches for the words of the chat."""
    root = Path(__file__).parents[3]
    guide = (root / "docs/how-to/gateway.md").read_text()
    quoted = re.findall(r"^\| \*(.+?)\.?\*", guide.partition("## Fix problems")[2], re.MULTILINE)
    source = "".join(each.read_text() for each in (root / "src/wakeful").rglob("*.py"))
    assert len(quoted) == 5
    assert [each for each in quoted if each not in source] == []
