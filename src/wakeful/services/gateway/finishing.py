"""What an answer asks of the gateway itself is done before its words are shown: calls of the chat first, then files."""

from collections.abc import Callable

from wakeful.domain.gateway.messages import Buttons
from wakeful.domain.gateway.tags import read_tags
from wakeful.domain.gateway.turn import Turn
from wakeful.services.gateway.answering import Answers
from wakeful.services.gateway.needs import KeepTag
from wakeful.services.gateway.tags_run import Rights, TagsRun, with_line


class TagFinish:
    """Implements Finish. `rights_of` says what whoever asked may have done; `buttons_of` what is offered at once."""

    def __init__(
        self,
        answers: Answers,
        rights_of: Callable[[Turn], Rights],
        buttons_of: Callable[[Turn, str], Buttons] = lambda _turn, _text: (),
    ) -> None:
        self._answers = answers
        self._rights_of = rights_of
        self._buttons_of = buttons_of

    async def carry_out(self, turn: Turn, keep: KeepTag) -> tuple[str, Buttons]:
        tagged = read_tags(turn.text)
        run = TagsRun(self._answers, turn.place, self._rights_of(turn), keep)
        text = with_line(tagged.text, await run.run(tagged, turn.tags))
        return text, self._buttons_of(turn, text)
