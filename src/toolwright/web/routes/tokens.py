"""Tokens for streams."""

from fastapi import APIRouter

from toolwright.web.answer import Answer, answer
from toolwright.web.callers import Service
from toolwright.web.serving import Here
from toolwright.web.shapes import StreamTokenShape, answers

router = APIRouter(prefix="/api/stream-tokens", tags=["streams"])


@router.post("", responses=answers(StreamTokenShape, "The token."))
async def create_stream_token(caller: Service, here: Here) -> Answer:
    """A token that opens one stream within a minute, as `?token=`."""
    token, expires_at = here.tokens.issue(caller)
    return answer({"token": token, "expiresAt": expires_at.isoformat()})
