"""The validator: what is rejected, and above all what is not."""

import pytest

from wakeful.gateway.rules.errors import CATEGORY_OF, Category, Reason
from wakeful.gateway.rules.follow_ups import PROMPTS
from wakeful.gateway.rules.validation import RECENT_MAX, RULES, Exchange, Finish, Recent, similarity, validate

PYTHON_TRACE = (
    'Traceback (most recent call last):\n  File "/app/run.py", line 3, in <module>\n    main()\n'
    '  File "/app/run.py", line 9, in main\n    return 1 / 0\nZeroDivisionError: division by zero'
)
NODE_TRACE = (
    "TypeError: Cannot read properties of undefined (reading 'id')\n"
    "    at load (/srv/app/index.js:12:7)\n    at process.processTicksAndRejections (node:internal/process:95:5)"
)
JAVA_TRACE = (
    'Exception in thread "main" java.lang.IllegalStateException: no\n\tat com.shop.Main.run(Main.java:14)'
)
GO_TRACE = (
    "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:8 +0x1d"
)
LONG = "The deployment went through: all eleven services answer, the database was migrated and the cache is warm. "
EXPLAINED = (
    f"The job failed. This is what the log says:\n\n```\n{PYTHON_TRACE}\n```\n\nThe divisor is zero when the list "
    "is empty, so I added a check."
)


@pytest.mark.parametrize(
    "text", ["", "  \n\t", "\u200b\u200b", "\x1b[0m", "(no content)", "No response requested."]
)
def test_nothing_to_read_is_empty(text: str) -> None:
    """Spaces, invisible characters and the client's own word for nothing are no answer."""
    assert validate(text) is Reason.EMPTY


@pytest.mark.parametrize(
    "text",
    [
        PYTHON_TRACE,
        f"It failed:\n{PYTHON_TRACE}",
        NODE_TRACE,
        JAVA_TRACE,
        GO_TRACE,
        "API Error: 500 Internal server error. This is a server-side issue, usually temporary",
        "Error: spawn claude ENOENT",
        "stream disconnected before completion: stream closed before response.completed",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "Execution error",
    ],
)
def test_a_trace_or_an_error_alone_is_a_leak(text: str) -> None:
    """Both clients' errors and the traces of the usual runtimes are no answer."""
    assert validate(text) is Reason.ERROR_LEAK


@pytest.mark.parametrize(
    "text",
    [
        EXPLAINED,
        f"```\n{PYTHON_TRACE}\n```",
        f"~~~text\n{NODE_TRACE}\n~~~",
        "`TypeError: x is not a function`",
        "You see `ZeroDivisionError: division by zero` because the list is empty.",
        "The call answers 500: that is an API Error: of the shop, not of ours.",
        (
            f"{NODE_TRACE}\n\nThis means that `user` is undefined here.\nIt happens when nobody is logged in.\n"
            "I put a guard in front of it.\nThe tests pass now."
        ),
        "Errors: none. Exceptions: none.",
        "    at noon the train leaves",
        f"It failed:\n\n{PYTHON_TRACE}\n\nThe divisor is zero when the list is empty.",
        f"{GO_TRACE}\n\nLine 8 reads one too far.",
        "API Error handling is in src/errors.py.",
        "TypeError: this is raised when an operation gets a value of the wrong type.",
    ],
)
def test_errors_that_are_quoted_or_explained_are_an_answer(text: str) -> None:
    """Code is quoted, and a trace with an explanation, however short, is what was asked for."""
    assert validate(text) is None


@pytest.mark.parametrize(
    "last",
    [
        "subprocess.TimeoutExpired: Command 'make' timed out after 3 seconds.",
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
        "    raise ValueError('it is not a number.')",
        "npm ERR! A complete log of this run can be found in: /root/.npm/_logs/debug.log",
        "Aborted.",
    ],
)
def test_what_a_program_prints_below_its_trace_explains_nothing(last: str) -> None:
    """Only a sentence about it does."""
    assert validate(f"{PYTHON_TRACE}\n{last}") is Reason.ERROR_LEAK


def test_who_asks_about_an_error_by_its_name_is_told_of_it() -> None:
    """The same words to another question are a leak."""
    text = "NullPointerException: thrown for a reference that is null"
    assert validate(text, asked="What is a NullPointerException?") is None
    assert validate(text, asked="Please restart the shop") is Reason.ERROR_LEAK


@pytest.mark.parametrize(
    "text",
    [
        "I'm not sure what you're asking.",
        "I\u2019m sorry, I don\u2019t understand your request. Could you please clarify?",
        "Sorry, I didn't quite understand that. Could you rephrase your question?",
        "I'm confused. What do you mean?",
        "Hmm. What would you like me to do?",
        "It looks like your message was cut off. Could you repeat that?",
    ],
)
def test_confusion_and_nothing_else_is_confusion(text: str) -> None:
    """Every sentence says that nothing was understood."""
    assert validate(text) is Reason.CONFUSION


@pytest.mark.parametrize(
    "text",
    [
        "I'm not sure what you mean: the staging database or the production one?",
        "Could you clarify whether the old invoices should be kept?",
        "I don't understand why the test fails yet, but it fails since commit 3f2a.",
        "I'm not sure. It should be port 8080.",
        "Done. What would you like me to do next with the remaining branches?",
        "Sorry about that. It is fixed now.",
    ],
)
def test_a_question_that_names_something_is_an_answer(text: str) -> None:
    """Asking back is work, as long as it says about what."""
    assert validate(text) is None


@pytest.mark.parametrize(
    "text", ["Here it is:\n```python\nprint(1)\n", LONG * 2 + "and then the", LONG * 2 + "first,"]
)
def test_what_breaks_off_is_truncated_unless_the_client_says_otherwise(text: str) -> None:
    """An open code block or an unfinished sentence; the client's own report takes precedence."""
    assert validate(text) is Reason.TRUNCATED
    assert validate(text, finish=Finish.COMPLETE) is None
    assert validate("Yes.", finish=Finish.CUT_SHORT) is Reason.TRUNCATED


@pytest.mark.parametrize(
    "text",
    [
        "Run this:\n```sh\nmake test\n```",
        "````md\n```\nopen inside\n````",
        "~~~\n```\n~~~",
        LONG * 2 + "\n- one\n- two",
        LONG * 2 + "\n```\nf(a,\n```",
        "Bread, butter, and",
        "Inline ``` marks are no block",
    ],
)
def test_what_ends_like_an_answer_is_whole(text: str) -> None:
    """A closing fence, nested fences, lists, short texts: nothing is missing."""
    assert validate(text) is None


def test_the_same_paragraph_to_the_same_question_is_a_loop_the_third_time() -> None:
    """Without a new word, whichever two of the last three answers it was; a new number or name is news."""
    said = LONG.replace(": all eleven services answer,", ". All eleven services answer;")
    once = Recent().after("go on", LONG)
    twice = once.after("list the users", "Anna, Ben").after("Go on!", LONG)
    assert validate(said, asked="go on", recent=once) is None
    assert validate(said, asked="go on", recent=twice) is Reason.LOOP
    assert validate(LONG.replace("eleven", "twelve"), asked="go on", recent=twice) is None
    assert validate(said, asked="go on", recent=twice.after("x", "y").after("x", "y")) is None


def test_another_question_may_have_the_same_answer() -> None:
    """The true status of B after that of A, however alike both read, and however often others were asked for."""
    recent = (
        Recent().after("status of web?", LONG).after("status of db?", LONG).after("status of mail?", LONG)
    )
    assert validate(LONG, asked="status of search?", recent=recent) is None
    assert validate(LONG, asked="why is the page slow?", recent=recent) is None
    # If the questions are unknown, they count as one.
    assert validate(LONG, recent=Recent().after("", LONG).after("", LONG)) is Reason.LOOP


@pytest.mark.parametrize("prompt", PROMPTS.values())
def test_who_asks_for_the_last_answer_again_may_get_it(prompt: str) -> None:
    """By a button or its word: a model that stays with its answer does not loop."""
    recent = Recent().after("How did it go?", LONG)
    assert validate(LONG, asked=prompt, recent=recent) is None


def test_yes_may_be_said_three_times() -> None:
    """Short answers repeat themselves in every healthy conversation."""
    recent = Recent()
    for question in ("is it up?", "do the tests pass?", "may I go home?", "really?"):
        assert validate("Yes, it does.", asked=question, recent=recent) is None
        recent = recent.after(question, "Yes, it does.")
    assert len(recent.exchanges) == RECENT_MAX


def test_similarity_of_long_texts_is_bounded_work() -> None:
    """A megabyte is compared by its ends and its length, in no time."""
    page = "".join(f"line {number} of the page\n" for number in range(50_000))
    assert similarity(page, page) == 1.0
    assert similarity(page, page[:300_000] + page[-1000:]) < 0.7
    assert validate(page, recent=Recent((Exchange("", page),) * 2)) is Reason.LOOP


def test_every_reason_has_its_category() -> None:
    """Confusion is confusion, the other four are an invalid response, and each has a rule."""
    assert set(RULES) == set(Reason) == set(CATEGORY_OF)
    assert {reason for reason, category in CATEGORY_OF.items() if category is Category.CONFUSION} == {
        Reason.CONFUSION
    }
    assert set(CATEGORY_OF.values()) == {Category.CONFUSION, Category.INVALID_RESPONSE}
