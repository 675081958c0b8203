"""Tokens for streams."""

from toolwright.web.answers.answer import Answer, answer
from toolwright.web.answers.shapes import StreamTokenShape, answers
from toolwright.web.callers import Known
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here

router = noun("/api/stream-tokens", "streams")


@router.post("", responses=answers(StreamTokenShape, "The token."))
async def create_stream_token(caller: Known, here: Here) -> Answer:
    """A token that opens one stream within a minute, as `?token=`, for the one who asks for it."""
    token, expires_at = here.tokens.issue(caller)
    return answer({"token": token, "expiresAt": expires_at.isoformat()})
