"""Is the server able to work?"""

from toolwright.core.errors import StoreError
from toolwright.core.json_value import JSONObject
from toolwright.web.answers.answer import Answer, answer, status_of
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here
from toolwright.wire.server import Health

router = noun("", "health")


@router.get(
    "/health",
    responses={
        200: {"model": Health, "description": "The journal and the files can be written."},
        503: {"model": Health, "description": "One of them cannot, or not at the moment."},
    },
)
async def health(serving: Here) -> Answer:
    """Whether the journal and the files can be written; open to everyone."""
    body: JSONObject = {"status": "ok", "version": serving.options.version}
    try:
        await serving.runtime.health.check()
    except StoreError as error:
        unavailable: JSONObject = {"status": "unavailable", "error": error.message}
        return answer(body | unavailable, status_of(type(error)), {"Retry-After": "1"})
    return answer(body)
