"""The systems that are measured: their workers, their virtual environments, and what their documentation says."""

from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class System:
    """One system on one kind of database.

    `worker` is the module of its worker, `environment` the folder of its virtual environment, `driver` the scheme of
    its URLs for Postgres. `setup` is how the worker uses it. `documented` is what its documentation says of an effect
    that was cut off, and `page` where.
    """

    name: str
    title: str
    worker: str
    environment: str
    packages: tuple[str, ...]
    setup: str
    documented: str
    page: str
    driver: str = "postgresql"
    database: str = "SQLite"
    kills: int = 100

    @property
    def python(self) -> Path:
        """The interpreter of its virtual environment."""
        return ROOT / self.environment / "bin" / "python"


ON_SQLITE = (
    System(
        name="toolwright",
        title="Toolwright",
        worker="toolwright_agent",
        environment=".venv",
        packages=("toolwright-agents",),
        setup="The embedded runtime (`App.runtime`) with its default settings. The tool has no marks.",
        documented="A call that was cut off is not executed again: the model reads that its effect is unknown. A tool "
        "marked `read_only` or `idempotent` is executed again with the same `call_id`.",
        page="[How durability works](../docs/durability.md)",
        kills=200,
    ),
    System(
        name="langgraph",
        title="LangGraph",
        worker="langgraph_agent",
        environment=".venv/kills/langgraph",
        packages=("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain"),
        setup='`create_agent` with a checkpointer and `durability="sync"`; the effect is a `@task` in the tool, which '
        "had fewer repeats in trials of 40 kills than no task, and than an `@entrypoint` of tasks. A thread is "
        "continued with `None`.",
        documented="A task that starts and does not complete is run again: use idempotency keys, or verify existing "
        "results.",
        page="“Durable execution”, docs.langchain.com",
    ),
    System(
        name="agno",
        title="agno",
        worker="agno_agent",
        environment=".venv/kills/agno",
        packages=("agno",),
        setup='An agent with a database and `checkpoint="tool-batch"`. A run is continued with `acontinue_run`; a run '
        "without a checkpoint is started again under its id.",
        documented="A run resumes from its last checkpoint, which is written after each batch of tool calls.",
        page="“Crash recovery”, docs.agno.com",
        driver="postgresql+psycopg",
    ),
    System(
        name="pydantic-ai-dbos",
        title="pydantic-ai with DBOS",
        worker="pydantic_ai_agent",
        environment=".venv/kills/pydantic-ai-dbos",
        packages=("pydantic-ai-slim", "dbos"),
        setup="An agent with `DBOSDurability`, run in a `@DBOS.workflow`; the tool is a `@DBOS.step`. `DBOS.launch` "
        "recovers the workflows.",
        documented="Steps are executed at least once: if a step fails, it restarts from its beginning. Side effects "
        "should be idempotent.",
        page="“Durable execution with DBOS”, ai.pydantic.dev; “Concurrent executions”, docs.dbos.dev",
    ),
    System(
        name="openai-agents-dbos",
        title="OpenAI Agents SDK with DBOS",
        worker="openai_agent",
        environment=".venv/kills/openai-agents-dbos",
        packages=("openai-agents", "dbos-openai-agents", "dbos"),
        setup="`DBOSRunner.run` in a `@DBOS.workflow`; the tool is a `@DBOS.step`. `DBOS.launch` recovers the "
        "workflows.",
        documented="As for pydantic-ai with DBOS.",
        page="“OpenAI Agents SDK”, docs.dbos.dev",
    ),
)
SYSTEMS = (
    *ON_SQLITE,
    *[replace(each, name=f"{each.name}-postgres", database="Postgres") for each in ON_SQLITE],
)
