"""Settings: from the environment (prefix `TOOLWRIGHT_`), or given in Python."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEMORY = "memory://"
Names = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """What a process is told. Lists are comma-separated in the environment.

    `database_url` is `sqlite:///PATH`, `postgresql://…` or `memory://`; without `secret_keys` every caller from
    this machine has all rights, and the server listens on no other.
    """

    model_config = SettingsConfigDict(env_prefix="TOOLWRIGHT_", extra="forbid")

    database_url: str = "sqlite:///toolwright.db"
    secret_keys: Names = ()
    cors_origins: Names = ()
    model: str | None = None
    max_steps: int = Field(default=50, ge=1)
    max_body: int = Field(default=10 * 1024 * 1024, ge=1)
    concurrency: int = Field(default=1_000, ge=1)

    @field_validator("secret_keys", "cors_origins", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:  # whatever the caller gave
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("database_url")
    @classmethod
    def _known(cls, value: str) -> str:
        if ":memory:" in value:
            raise ValueError("a journal in memory is memory://")
        if not value.startswith(("sqlite:///", "postgresql://", "postgres://", MEMORY)):
            raise ValueError(
                f"database_url must begin with sqlite:/// (and a path), postgresql:// or memory://, not {value!r}"
            )
        return value

    @property
    def sqlite_path(self) -> Path | None:
        """The file of an SQLite journal, None for any other."""
        if not self.database_url.startswith("sqlite:"):
            return None
        return Path(self.database_url.removeprefix("sqlite:///") or "toolwright.db")
