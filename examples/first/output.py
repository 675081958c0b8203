from pydantic import BaseModel

import toolwright as tw


class City(BaseModel):
    name: str
    people: int


print(tw.run_sync(tw.Agent("atlas", model="openai:gpt-6.1-terra", output=City), "Germany's capital?").output)
