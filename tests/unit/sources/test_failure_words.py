"""Sentences that real clients and providers show when a turn fails, each with what it means."""

import pytest

from wakeful.control.login import auth_tier
from wakeful.judging.events import Failure
from wakeful.sources.turn_failure import classify_failure, turn_failed_event

AUTH, LIMIT, PROVIDER, REQUEST, UNKNOWN = (
    Failure.AUTH,
    Failure.LIMIT,
    Failure.PROVIDER,
    Failure.REQUEST,
    Failure.UNKNOWN,
)

BROKEN_LOGIN_CHECK = (
    "Failed to authenticate. API Error: 401 The socket connection was closed unexpectedly. For more information, pass"
    " `verbose: true` in the second argument to fetch()"
)
# The sentence, the status and the code beside it where the client gives them, and what it is.
SENTENCES = [
    # An account or a plan is used up.
    ("Claude AI usage limit reached|1794794974", None, "", LIMIT),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/New_York).", None, "", LIMIT),
    ("5-hour limit reached ∙ resets 18:00", None, "", LIMIT),
    ("Opus weekly limit reached ∙ resets Mon 12:00am", None, "", LIMIT),
    ("You've hit your session limit · resets 2:09am (UTC)", 429, "rate_limit", LIMIT),
    ("You've hit your weekly limit · resets Aug 16 at 1am (Asia/Tokyo)", 429, "rate_limit", LIMIT),
    ("You've hit your limit · resets 7pm (Asia/Shanghai)", 429, "rate_limit", LIMIT),
    ("You've hit your org's monthly spend limit", 429, "rate_limit", LIMIT),
    ("You've reached your weekly limit. It resets Monday at 9am.", None, "", LIMIT),
    ("You're out of extra usage · resets 4pm", 400, "invalid_request", LIMIT),
    ("You're out of extra usage. Add more at claude.ai/settings/usage and keep going.", 400, "invalid_request", LIMIT),
    ("Credit balance is too low", 400, "billing_error", LIMIT),
    ("You\u2019ve hit your usage limit. Upgrade to Pro or try again at 2:09 AM.", None, '"usage_limit_exceeded"', LIMIT),
    ("Quota exceeded. Check your plan and billing details.", None, "", LIMIT),
    ("unexpected status 429 Too Many Requests: You exceeded your current quota", 429, "", LIMIT),
    ("Your workspace is out of credits. Add credits to continue.", None, "", LIMIT),
    # A provider that is busy, or a rate: it passes by itself.
    ("API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited", 429, "rate_limit", PROVIDER),
    ("API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited", None, "", PROVIDER),
    ("API Error: Request rejected (429) · Rate limited. Please try again later.", 429, "rate_limit", PROVIDER),
    ("API Error: Request rejected (429) · slow down", 429, "rate_limit", PROVIDER),
    ("API Error: Rate limit reached", None, "", PROVIDER),
    (('API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your'
     ' account\'s rate limit. Please try again later."}}'), None, "", PROVIDER),
    ("exceeded retry limit, last status: 429 Too Many Requests, request id: 9c84b52ce87fbe62-SJC", None, "", PROVIDER),
    (("Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000. Please try"
     " again in 1.2s."), 429, "", PROVIDER),
    ("API Error: 529 Overloaded. This is a server-side issue, usually temporary", 529, "overloaded", PROVIDER),
    ("API Error (500 Internal server error)", None, "", PROVIDER),
    ("We\u2019re currently experiencing high demand", None, "", PROVIDER),
    ("stream disconnected before completion: x", None, "", PROVIDER),
    ("unexpected status 503 Service Unavailable: no", None, "", PROVIDER),
    # A request that did not get through, whatever it was asked with.
    (BROKEN_LOGIN_CHECK, 401, "authentication_failed", PROVIDER),
    (BROKEN_LOGIN_CHECK, None, "", PROVIDER),
    ("API Error: The socket connection was closed unexpectedly.", None, "unknown", PROVIDER),
    ("API Error: Unable to connect to API (ECONNRESET)", None, "server_error", PROVIDER),
    ("Failed to authenticate. API Error: 401 fetch failed", 401, "authentication_failed", PROVIDER),
    ("API Error: The operation timed out.", None, "", PROVIDER),
    # A login.
    ("Invalid API key · Fix external API key", 401, "authentication_failed", AUTH),
    ("Failed to authenticate. API Error: 401 OAuth token has expired. Please obtain a new token.", 401, "", AUTH),
    ("Please run /login · API Error: 403 no", None, "", AUTH),
    ("Your account does not have access to Claude. Please login again or contact your administrator.", 403, "", AUTH),
    ("unexpected status 401 Unauthorized: , url: http://127.0.0.1:1/v1/responses", None, "", AUTH),
    ("Your access token could not be refreshed because your refresh token was already used.", None, "", AUTH),
    ("Missing environment variable: `FAKE_KEY`.", None, "", AUTH),
    # What was asked for, and no limit of an account.
    ("Context limit reached · /compact or /clear to continue", None, "invalid_request", REQUEST),
    ("Context limit reached · /compact or /clear to continue", None, "", REQUEST),
    ("Prompt is too long", 400, "", REQUEST),
    ("API Error: 400 due to tool use concurrency issues.", None, "", REQUEST),
    ("API Error: Claude's response exceeded the 32000 output token maximum.", None, "max_output_tokens", REQUEST),
    ("There's an issue with the selected model (x). It may not exist.", 404, "model_not_found", REQUEST),
    ("Codex ran out of room in the model's context window.", None, "", REQUEST),
    ("Reached maximum number of turns (2)", None, "", UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "status", "code", "failure"), SENTENCES)
def test_a_sentence_is_classed_by_what_it_says(
    sentence: str, status: int | None, code: str, failure: Failure
) -> None:
    """Words decide before the code and the status: a 429 and a 401 each stand for two different things."""
    assert classify_failure(sentence, status, code) is failure


def test_only_a_usage_limit_has_an_end() -> None:
    """A rate limit says when to try again too, without a wait for a plan's next window."""
    rate = "Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 20s."
    assert turn_failed_event(rate, 1000.0, status=429).until is None
    assert (
        turn_failed_event("You're out of extra usage · resets in 3 hours", 1000.0).until == 1000.0 + 3 * 3600
    )


def test_a_login_check_whose_connection_broke_needs_no_login() -> None:
    """The chat gateway asks no person to log in for it."""
    assert auth_tier(BROKEN_LOGIN_CHECK) is None
    assert auth_tier("Failed to authenticate. API Error: 401 no") is not None
