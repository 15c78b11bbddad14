"""What an open call makes a session wait for, by the name of its tool: a person, a subagent, or the tool itself. Pure.

Every reader of a log asks here, so that one name means the same in all of them.
"""

import re
from functools import lru_cache
from typing import Final

from wakeful.judging.events import CallKind

_NAMED: Final = {
    "AskUserQuestion": CallKind.PERSON,
    "ExitPlanMode": CallKind.PERSON,
    "Task": CallKind.SUBAGENT,
    "Agent": CallKind.SUBAGENT,
}
# Tools of other programs, and those that a server lends to an agent: `mcp__desk__ask_user`.
_PERSON: Final = re.compile(
    r"(?:^|[_.-])(?:ask(?:_the)?_(?:user|human|person|question|follow_?up_question)"
    r"|request_(?:user_input|human_input|approval|permissions?|confirmation)"
    r"|(?:get|await|wait_for)_(?:user|human)_(?:input|response|reply|approval)|human_input)$"
)
_SUBAGENT: Final = re.compile(
    r"(?:^|[_.-])(?:(?:run_?)?sub_?agent|(?:dispatch|delegate|launch|wait)_agents?|delegate_task|new_task)$",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def kind_of(tool: str) -> CallKind:
    """The kind of a call to this tool."""
    if tool in _NAMED:
        return _NAMED[tool]
    if _PERSON.search(tool) is not None:
        return CallKind.PERSON
    return CallKind.SUBAGENT if _SUBAGENT.search(tool) is not None else CallKind.TOOL
