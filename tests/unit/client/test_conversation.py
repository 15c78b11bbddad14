"""Parts of a conversation become one: new messages follow, ends of calls join their beginnings."""

from wakeful.client.conversation import join_messages
from wakeful.judging.events import Speaker
from wakeful.views.records import CallEnd, CallRecord, CallText, ConversationPart, MessageRecord, MessageText


def said(text: str) -> MessageRecord:
    return MessageRecord("2026-11-19T10:00:00Z", Speaker.AGENT, MessageText(text))


def called(call_id: str, tool: str, end: CallEnd, result: str = "") -> MessageRecord:
    at = "2026-11-19T10:00:01Z"
    ended_at = None if end is CallEnd.OPEN else "2026-11-19T10:00:09Z"
    call = CallRecord(at, ended_at, end, CallText(tool, "make" if tool else "", result))
    return MessageRecord(at, Speaker.AGENT, MessageText(""), call_id, call)


def part(*messages: MessageRecord, continued: bool = True) -> ConversationPart:
    return ConversationPart(messages, "1-2", continued)


def test_what_follows_is_added_and_only_the_newest_stay() -> None:
    joined = join_messages((said("a"), said("b")), part(said("c")), 2)
    assert joined == (said("b"), said("c"))


def test_a_part_that_does_not_follow_replaces_everything() -> None:
    assert join_messages((said("a"),), part(said("x"), continued=False), 9) == (said("x"),)


def test_the_end_of_a_call_joins_its_beginning() -> None:
    known = (called("c1", "Bash", CallEnd.OPEN), said("meanwhile"))
    first, second = join_messages(known, part(called("c1", "", CallEnd.ERROR, "no rule")), 9)
    assert first.call is not None
    assert (first.call.end, first.call.untrusted, first.call.ended_at) == (
        CallEnd.ERROR,
        CallText("Bash", "make", "no rule"),
        "2026-11-19T10:00:09Z",
    )
    assert second == said("meanwhile")


def test_the_end_of_a_call_that_was_not_read_stands_alone() -> None:
    end = called("c9", "", CallEnd.OK)
    assert join_messages((said("a"),), part(end), 9) == (said("a"), end)
    begun_again = called("c1", "Bash", CallEnd.OPEN)
    assert join_messages((called("c1", "Bash", CallEnd.OPEN),), part(begun_again), 9)[1] == begun_again
