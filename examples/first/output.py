from pydantic import BaseModel

import toolwright as tw


class City(BaseModel):
    name: str
    people: int


print(tw.run_sync(tw.Agent("atlas", model="openai:gpt-5-mini", output=City), "Germany's capital?").output)
