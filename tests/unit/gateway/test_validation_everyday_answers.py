"""What people really read: of everyday answers at most one in 73 is withheld, and what is no answer still is."""

import pytest

from wakeful.gateway.rules.errors import Reason
from wakeful.gateway.rules.validation import Finish, Recent, validate, without_trace

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/shop/cart.py", line 41, in total\n'
    "    return sum(item.price for item in items)\n"
    "TypeError: 'NoneType' object is not iterable"
)
JS_TRACE = (
    "TypeError: Cannot read properties of undefined (reading 'name')\n"
    "    at greet (/srv/web/index.js:7:19)\n"
    "    at Server.<anonymous> (/srv/web/index.js:21:3)"
)
# What was asked, and what was answered.
EVERYDAY = [
    ("hello", "Hello! How can I help you today?"),
    ("hi", "Hi! What can I do for you?"),
    ("hey", "Hey there! How can I help?"),
    ("good morning", "Good morning! How can I help you today?"),
    ("hello again", "Welcome back! How can I help you?"),
    ("thanks", "You're welcome!"),
    ("thank you", "Happy to help."),
    ("are you there?", "Yes, I am here."),
    ("ok", "Great. Let me know when you want me to go on."),
    ("who are you?", "I am the agent of this chat. I can read and change the project in its folder."),
    ("what does 404 mean?", "Error: 404 means that the page is not there."),
    ("and 500?", "Error: 500 means that the server itself failed."),
    ("403?", "Error: 403 means you are known and still not allowed."),
    ("what is a KeyError?", "KeyError: it happens when a dict does not have the key you asked for."),
    ("why EADDRINUSE?", "Error: EADDRINUSE happens because another program listens on the port already."),
    ("explain ENOENT", "Error: ENOENT means the file was not found."),
    ("TypeError?", "TypeError: usually a value is None where your function expects a list."),
    ("what was the last error?", "ConnectionError: broker at 10.0.0.7 refused the connection"),
    ("last line of the log please", "ValueError: invalid literal for int() with base 10: 'abc'"),
    ("show me the stack trace", TRACE),
    ("what did the crash say?", JS_TRACE),
    ("why does the cart fail?", f"```\n{TRACE}\n```\nThe list of items is None for a new customer."),
    (
        "what happened?",
        f"{TRACE}\n\nThe cart of a new customer is None.\nI return an empty list now.\nTests pass.\nShall I deploy?",
    ),
    ("and the web?", f"It is this one:\n\n```js\n{JS_TRACE}\n```\n\n`user` is undefined before the login."),
    (
        "how do I read a traceback?",
        "Read it from the bottom: the last line names the error, the lines above say where.",
    ),
    (
        "what is `Traceback`?",
        "`Traceback (most recent call last):` is the first line Python prints for an uncaught error.",
    ),
    ("is the API down?", "No. The API Error you saw was ours: the key had expired, and I renewed it."),
    (
        "status of service A?",
        "Service A is up: 3 of 3 replicas are ready, the error rate is 0.1 % and the last deploy was at 09:12.",
    ),
    ("do the tests pass?", "Yes, all 45 tests pass."),
    ("is it deployed?", "Yes."),
    ("which port?", "8080"),
    ("how many users?", "1,204"),
    ("which branch?", "main"),
    ("did it work?", "No, it did not."),
    ("may I close the ticket?", "Yes, please do."),
    ("what is left?", "Nothing."),
    ("which colour?", "Blue"),
    ("yes or no?", "No"),
    ("version?", "v2.14.0"),
    ("emoji?", "👍"),
    ("what is 2+2?", "4"),
    ("translate 'Danke'", "Thank you"),
    ("translate 'Entschuldigung'", "Sorry"),
    ("auf Deutsch bitte", "Die Tests laufen durch, und der Dienst ist wieder erreichbar."),
    ("en français ?", "Je suis désolé, le service est encore en panne ; je regarde pourquoi."),
    ("and in Japanese?", "テストはすべて成功しました。"),
    ("clean up the old ones", "Do you mean the staging database or the production one?"),
    ("delete it", "Could you say which file you mean: `old.csv` or `new.csv`?"),
    ("do it", "I'm not sure what you mean: the migration, or the restart of the worker?"),
    ("fix the bug", "I don't understand why it fails yet, but it fails since commit 3f2a91c."),
    ("what do you think?", "I am not sure. It could be the cache; I would look at its hit rate first."),
    ("can you help?", "Of course. What is it about?"),
    ("write a haiku", "Green tests in the dark,\nthe pager sleeps on the desk,\na branch merges, soft"),
    ("list the folders", "- src\n- tests\n- docs"),
    ("show the command", "```sh\nmake deploy ENV=staging\n```"),
    ("the regex?", "`^error: .*$`"),
    ("json please", '{"ok": true, "items": []}'),
    ("as a table", "| name | state |\n|---|---|\n| web | up |\n| db | up |"),
    (
        "how do I raise an error?",
        "Use `raise ValueError('no items')`; a caller can catch it with `except ValueError`.",
    ),
    (
        "write a handler",
        "```python\ntry:\n    run()\nexcept Exception as error:\n    log.error('Error: %s', error)\n    raise\n```",
    ),
    (
        "what do I say to a customer?",
        "You could write: “Sorry, I did not understand your question. Could you send a screenshot?”",
    ),
    ("draft a reply", "Sorry for the wait. The parcel left on Monday and should be with you by Thursday."),
    ("how is memory?", "61 % of 16 GB is used; the biggest process is postgres with 3.1 GB."),
    ("any errors today?", "Errors: none. Warnings: two, both about a slow disk."),
    (
        "are there exceptions?",
        "Exception: the billing team may deploy on Fridays; nobody else may, because of the freeze.",
    ),
    ("what does the linter say?", "error: unused import in cart.py, line 3. I removed it."),
    ("is CI green?", "Not yet: 2 of 14 jobs still run, the others passed."),
    (
        "summarise the thread",
        "Anna wants the export by Friday, Ben needs the new columns first, and Carla will review both.",
    ),
    ("what is next?", "1. Merge the branch.\n2. Run the migration.\n3. Watch the queue for ten minutes."),
    (
        "can you do that?",
        "I can't: this chat may only read the folder. An admin can change its permission mode.",
    ),
    ("why not?", "Because the token of the registry has expired; somebody has to renew it in the console."),
    ("stop asking", "Understood. I will decide such things myself from now on."),
    ("how long?", "About ten minutes, most of it for the image."),
    (
        "explain panics in Go",
        "A panic prints `goroutine 1 [running]:` and the stack; recover() in a deferred call catches it.",
    ),
    (
        "what's up with the API?",
        "It answers 500 on /orders since 14:02. The cause is a missing index, and I am adding it.",
    ),
    ("tell me more", "The index was dropped by migration 0042, which renamed the column and forgot it."),
]
STATUS = (
    "Service {name} is up: {ready} of 3 replicas are ready, the error rate is {rate} %, the last deploy was at {at}, and "
    "nobody was paged in the last day."
)
# Two exchanges, one after the other: the second is true, too.
REPEATED = [
    (
        "status of service A?",
        STATUS.format(name="A", ready=3, rate=0.1, at="09:12"),
        "status of service B?",
        STATUS.format(name="B", ready=3, rate=0.1, at="09:12"),
    ),
    (
        "how is A?",
        STATUS.format(name="A", ready=3, rate=0.1, at="09:12"),
        "has anything changed since?",
        STATUS.format(name="A", ready=2, rate=0.1, at="09:12"),
    ),
    (
        "status of service A?",
        STATUS.format(name="A", ready=3, rate=0.1, at="09:12"),
        "status of service A?",
        STATUS.format(name="A", ready=3, rate=0.1, at="09:12"),
    ),
    (
        "rename it in the parser",
        "I renamed the function in the parser, changed its three callers, and all of the tests pass again.",
        "and in the other one",
        "I renamed the function in the lexer, changed its three callers, and all of the tests pass again.",
    ),
    ("hello", "Hello! How can I help you today?", "hello?", "Hello! How can I help you today?"),
]
BAD = [
    ("deploy it", TRACE, Reason.ERROR_LEAK),
    ("add a test", JS_TRACE, Reason.ERROR_LEAK),
    ("hello", "API Error: 500 Internal server error", Reason.ERROR_LEAK),
    ("any errors?", "API Error: Connection error.", Reason.ERROR_LEAK),
    ("hello", "Error: spawn claude ENOENT", Reason.ERROR_LEAK),
    ("hello", "stream disconnected before completion: response.completed was not seen", Reason.ERROR_LEAK),
    ("hello", "Execution error", Reason.ERROR_LEAK),
    ("deploy service B", "I'm not sure what you're asking.", Reason.CONFUSION),
    (
        "deploy service B",
        "Sorry, I don't understand your request. Could you please clarify?",
        Reason.CONFUSION,
    ),
    ("deploy service B", "It looks like your message was cut off. Could you repeat that?", Reason.CONFUSION),
    ("deploy", "", Reason.EMPTY),
    ("deploy", "(no content)", Reason.EMPTY),
]


def test_the_sample_is_large_enough() -> None:
    """73 texts and more, none twice."""
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 73


def test_of_everyday_answers_at_most_one_is_withheld() -> None:
    """Greetings, short answers, errors that are explained or asked about, code, other languages, questions back."""
    wrong = [
        (asked, text[:60], reason)
        for asked, text in EVERYDAY
        if (reason := validate(text, asked=asked, finish=Finish.COMPLETE)) is not None
    ]
    assert len(wrong) <= 1, wrong


def test_the_whole_conversation_at_once_is_no_loop() -> None:
    """The same sample as one conversation: earlier answers cause no rejection."""
    recent, wrong = Recent(), []
    for asked, text in EVERYDAY:
        if validate(text, asked=asked, recent=recent, finish=Finish.COMPLETE) is not None:
            wrong.append((asked, text))
        recent = recent.after(asked, text)
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize(("first", "answer", "then", "status"), REPEATED)
def test_a_repeated_status_is_an_answer(first: str, answer: str, then: str, status: str) -> None:
    """Of another service, of the same one with other facts, or asked for again."""
    assert validate(status, asked=then, recent=Recent().after(first, answer), finish=Finish.COMPLETE) is None


@pytest.mark.parametrize(("asked", "text", "reason"), BAD)
def test_what_is_no_answer_is_withheld(asked: str, text: str, reason: Reason) -> None:
    """Nothing, a client's error, an unrequested trace, and a mere failure to understand."""
    assert validate(text, asked=asked, finish=Finish.COMPLETE) is reason


@pytest.mark.parametrize(
    "below",
    [
        "The cart of a new customer is None. Shall I return an empty list?",
        "Should I return an empty list?",
        "The cart of a new customer is None. ",
        "**Cause:** the cart of a new customer is `None`.",
        "The cart is None for a new customer.\n- return an empty list\n- or refuse it",
        "Le panier est vide, je le corrige ?",
    ],
)
def test_a_trace_with_its_cause_below_is_an_answer(below: str) -> None:
    """One line is enough: a sentence, a question, a cause in bold, also with a list behind it or a blank at its end."""
    assert validate(f"{TRACE}\n\n{below}", asked="run it", finish=Finish.COMPLETE) is None


@pytest.mark.parametrize(
    "below",
    [
        "Node.js v20.11.0",
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        "error Command failed with exit code 1.",
        f"During handling of the above exception, another exception occurred:\n\n{TRACE}",
    ],
)
def test_what_a_program_prints_below_a_trace_explains_nothing(below: str) -> None:
    """Only a person's words do."""
    assert validate(f"{TRACE}\n{below}", asked="run it", finish=Finish.COMPLETE) is Reason.ERROR_LEAK


@pytest.mark.parametrize("trace", [TRACE, JS_TRACE, "Error: spawn claude ENOENT"])
def test_a_trace_is_not_seen_while_it_is_written(trace: str) -> None:
    """Letter by letter, whatever arrived so far: nothing of it is shown; what stands before it is."""
    text = f"{trace}\n"
    for end in range(len(text) + 1):
        # A word that could become anything is no trace yet.
        assert without_trace(text[:end]) in ("", *(text[:length] for length in range(9))), text[:end]
        if trace != "Error: spawn claude ENOENT":
            shown = without_trace(f"It failed.\n{text[:end]}")
            assert shown.split("\n")[0] == "It failed.", shown
            assert "    at" not in shown, shown
            assert "Traceback" not in shown, shown
    if trace == TRACE:
        assert without_trace(f"It failed.\n{trace}") == "It failed."
    assert without_trace(f"It failed:\n```\n{trace}\n```\nFixed.") == f"It failed:\n```\n{trace}\n```\nFixed."


@pytest.mark.parametrize(
    "text", ["At noon it was down", "at noon", "The table is", "Under it", "Files: two", "It works. Threads"]
)
def test_everyday_words_are_seen_while_they_are_written(text: str) -> None:
    """Only what begins as a trace does waits for the end of its line."""
    assert without_trace(text) == text
