"""A second sample, written after the rules: thirty everyday answers, and twenty that are none."""

import pytest

from wakeful.gateway.rules.errors import Reason
from wakeful.gateway.rules.validation import Finish, Recent, validate, without_trace

PY_TRACE = (
    "Traceback (most recent call last):\n"
    '  File "app.py", line 3, in <module>\n'
    "    main()\n"
    "ZeroDivisionError: division by zero"
)
GO_TRACE = "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/main.go:9 +0x1d"
JAVA_TRACE = (
    'Exception in thread "main" java.lang.NullPointerException\n'
    "    at com.shop.Cart.total(Cart.java:41)\n"
    "    at com.shop.Main.main(Main.java:7)"
)
RUBY = (
    "app/models/cart.rb:41:in `total': undefined method `price' for nil:NilClass (NoMethodError)\n"
    "\tfrom app/models/cart.rb:12:in `each'\n"
    "\tfrom bin/run:7:in `<main>'"
)
# As each runtime prints it, and after a word of the agent.
OTHER_TRACES = {
    "ruby": RUBY,
    "ruby 3.4, with the source": (
        "cart.rb:41:in 'Cart#total': undefined method 'price' for nil (NoMethodError)\n\n"
        "    items.sum { |i| i.price }\n                     ^^^^^^\n\tfrom cart.rb:12:in 'Array#each'\n\tfrom run.rb:7:in '<main>'"
    ),
    "ruby 2.7": (
        "Traceback (most recent call last):\n\t2: from run.rb:7:in `<main>'\n\t1: from cart.rb:12:in `each'\n"
        "cart.rb:41:in `total': undefined method `price' for nil:NilClass (NoMethodError)"
    ),
    "rails": (
        "NoMethodError (undefined method `price' for nil:NilClass):\n\napp/models/cart.rb:41:in `total'\n"
        "app/controllers/cart_controller.rb:9:in `show'"
    ),
    "php": (
        "PHP Fatal error:  Uncaught TypeError: total(): Argument #1 must be of type array in /srv/cart.php:41\n"
        "Stack trace:\n#0 /srv/index.php(7): total(NULL)\n#1 {main}\n  thrown in /srv/cart.php on line 41"
    ),
    "c#": (
        "Unhandled exception. System.NullReferenceException: Object reference not set to an instance of an object.\n"
        "   at Shop.Cart.Total() in /srv/Cart.cs:line 41\n   at Shop.Program.Main(String[] args)"
    ),
    "elixir": (
        "** (KeyError) key :price not found in: nil\n    lib/shop/cart.ex:41: Shop.Cart.total/1\n    lib/shop.ex:7: Shop.run/0"
    ),
    "rust": (
        "thread 'main' panicked at src/main.rs:2:5:\nindex out of bounds: the len is 3 but the index is 3\n"
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
    ),
}
EVERYDAY = [
    ("hi!", "Hi there. What would you like me to do?"),
    ("sorry, wrong chat", "No problem!"),
    ("please be brief", "Will do."),
    ("guten Morgen", "Guten Morgen! Wobei kann ich helfen?"),
    ("¿sigues ahí?", "Sí, aquí estoy. ¿Qué necesitas?"),
    ("привет", "Привет! Чем могу помочь?"),
    ("服务正常吗?", "正常。三个副本都在运行。"),
    ("did you get that?", "Yes. I understand: only the staging cluster, and nothing before 18:00."),
    ("is it safe?", "I don't know yet. I have not read the migration."),
    ("what do you mean?", "I mean the cache of the browser, not the one of the server."),
    ("which one?", "Which one do you want: the big picture or the details?"),
    (
        "run the tests",
        "Error: 2 tests fail. I fixed the first one; the second needs your decision on the rounding.",
    ),
    ("deploy", "Error: the deploy stopped because your token has expired. Please renew it, and I go on."),
    ("summary?", "Exception handling is the main change: three broad `except` clauses are gone."),
    ("why?", "ValueError: you passed a string. `int(size)` fixes it."),
    (
        "look at this:\n" + PY_TRACE,
        "You divide by zero in line 3:\n\n" + PY_TRACE + "\n\nGuard it with `if total:`.",
    ),
    ("give me the full traceback of the last run", PY_TRACE),
    (
        "what did the service print?",
        f"This:\n\n{JAVA_TRACE}\n\nThe cart is null for guests.\nI added a check.\nIt runs now.",
    ),
    ("where is it?", "`src/errors/handler.ts:41`"),
    ("log line?", "`2026-11-18 ERROR timeout after 30s`"),
    ("the diff", "```diff\n-    raise Error('x')\n+    return None\n```"),
    ("curl it", "```\n$ curl -i localhost\nHTTP/1.1 500 Internal Server Error\n```\nIt is down."),
    ("names?", "Anna\nBen\nCarla"),
    ("steps", "- pull\n- build\n- push, and\n- wait for the health check"),
    ("math", "x = (a + b) / 2"),
    (
        "quote me",
        "> I don't understand.\n\nThat is what the customer wrote; I would ask for the order number.",
    ),
    (
        "how does Go report it?",
        "It prints `panic: …` and a list of goroutines; the first one is where it happened.",
    ),
    ("poem please", "The queue is long, the night is mild,\nthe build is green, the log is filed,\nand"),
    ("draft an apology", "We are sorry for the trouble. Could you please clarify which invoice you mean?"),
    ("401 again?", "Yes: the API answers 401 because the key was rotated at noon. Ask Ben for the new one."),
]
# The question, the answer, why it is none, and what was said before in the same conversation.
STUCK = "I will start with the migration now: first I read the schema, then I write the script, then I run the tests on it."
BAD: list[tuple[str, str, Reason, Recent]] = [
    ("deploy", "   \n", Reason.EMPTY, Recent()),
    ("deploy", "No response requested.", Reason.EMPTY, Recent()),
    ("deploy", "\u200b\u200b", Reason.EMPTY, Recent()),
    ("add a button", PY_TRACE, Reason.ERROR_LEAK, Recent()),
    ("add a button", GO_TRACE, Reason.ERROR_LEAK, Recent()),
    ("add a button", JAVA_TRACE, Reason.ERROR_LEAK, Recent()),
    ("hello", "API Error: 529 Overloaded", Reason.ERROR_LEAK, Recent()),
    ("hello", "API Error: Connection error.", Reason.ERROR_LEAK, Recent()),
    ("what does this error mean?", "API Error: 500 Internal server error", Reason.ERROR_LEAK, Recent()),
    ("hello", "unexpected status 502 Bad Gateway: upstream", Reason.ERROR_LEAK, Recent()),
    ("hello", "exceeded retry limit, last status: 429 Too Many Requests", Reason.ERROR_LEAK, Recent()),
    ("hello", "Request timed out.", Reason.ERROR_LEAK, Recent()),
    ("hello", "TypeError: Cannot read properties of undefined (reading 'id')", Reason.ERROR_LEAK, Recent()),
    ("rename the file", "I'm sorry, I don't understand your request.", Reason.CONFUSION, Recent()),
    ("rename the file", "I am a bit confused. What do you mean by that?", Reason.CONFUSION, Recent()),
    ("rename the file", "Hello! I'm not sure what you mean. Could you clarify?", Reason.CONFUSION, Recent()),
    ("show the file", "Here it is:\n```python\ndef main():\n    run(", Reason.TRUNCATED, Recent()),
    (
        "explain it",
        "The service reads the queue in order. " * 6 + "It then stops because",
        Reason.TRUNCATED,
        Recent(),
    ),
    ("go on", STUCK, Reason.LOOP, Recent().after("go on", STUCK).after("go on", STUCK)),
    ("Go on.", STUCK, Reason.LOOP, Recent().after("go on", STUCK).after("no", "ok").after("go on!", STUCK)),
]


def test_of_thirty_more_everyday_answers_none_is_withheld() -> None:
    """Short, polite, in other languages, with code and error words, and a trace that was asked about."""
    assert len(EVERYDAY) == 30
    wrong = [
        (asked, text[:60], reason)
        for asked, text in EVERYDAY
        if (reason := validate(text, asked=asked, finish=Finish.COMPLETE)) is not None
    ]
    assert wrong == []


def test_of_twenty_that_are_no_answers_none_is_shown() -> None:
    """Nothing, a client's own errors, unrequested traces, failures to understand, halves, and a stuck agent."""
    assert len(BAD) == 20
    missed = [
        (asked, text[:60], reason)
        for asked, text, reason, recent in BAD
        if validate(text, asked=asked, recent=recent) is not reason
    ]
    assert missed == []


@pytest.mark.parametrize("trace", OTHER_TRACES.values(), ids=OTHER_TRACES)
def test_a_trace_of_any_usual_runtime_is_an_error(trace: str) -> None:
    """It is withheld alone, and shown where it was asked for, is quoted or is explained."""
    assert validate(trace, asked="deploy it", finish=Finish.COMPLETE) is Reason.ERROR_LEAK
    assert validate(trace, asked="show me the stack trace", finish=Finish.COMPLETE) is None
    for answer in (f"It failed:\n```\n{trace}\n```", f"{trace}\n\nThe cart of a guest is empty here."):
        assert validate(answer, asked="deploy it", finish=Finish.COMPLETE) is None


def test_an_error_of_ruby_in_one_line_is_an_error() -> None:
    """As every other program's error that stands alone."""
    assert validate(RUBY.split("\n", maxsplit=1)[0], asked="deploy it") is Reason.ERROR_LEAK


@pytest.mark.parametrize("trace", [trace for name, trace in OTHER_TRACES.items() if name != "rails"])
def test_such_a_trace_is_not_seen_while_it_is_written(trace: str) -> None:
    """Letter by letter: of its first line no more than the path it begins with."""
    for end in range(len(trace) + 1):
        shown = without_trace(f"It failed.\n{trace[:end]}").removeprefix("It failed.").strip()
        assert shown in trace[:18], shown
        assert ":" not in shown, shown


@pytest.mark.parametrize(
    "text",
    [
        "**Done.** It works",
        "# Status",
        "#12 is merged",
        "The method is in cart.rb now",
        "Fatal flaws: none",
        "at Shop (the new one)",
        "- at noon (UTC) it stopped",
    ],
)
def test_what_only_begins_like_a_trace_is_seen(text: str) -> None:
    """Headings, bold words, numbers of issues, names of files."""
    assert without_trace(text) == text
    assert validate(text, asked="deploy it", finish=Finish.COMPLETE) is None
