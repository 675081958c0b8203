"""Settings: from the environment (prefix `TOOLWRIGHT_`), or given in Python; and the meaning of each variable."""

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from toolwright.core.agents.prompt import MIN_TOKENS
from toolwright.core.errors import DefinitionError
from toolwright.core.forms import form_error
from toolwright.core.limits import (
    MAX_ATTACHMENT,
    MAX_HTTP_ANSWER,
    MAX_JSON_VALUES,
    MAX_NESTING,
    MAX_RESULT_TEXT,
)
from toolwright.core.text import brief, sentence, url_scheme
from toolwright.core.tools.http.addresses import Allowed, has_valid_ports, is_safe_url, names_host

S = TypeVar("S", bound=BaseSettings)

PREFIX = "TOOLWRIGHT_"
_ELSEWHERE = ("APP",)  # read by the command line, not by the settings
MEMORY = "memory://"
MIN_KEY = 16  # characters
MIN_SECRET = 32  # bytes: the output size of HS256's hash (RFC 7518 §3.2)
SECRETS = ("database_url", "encryption_keys", "secret_keys", "jwt_secret", "sentry_dsn")
"""Settings that hold a secret. Each can be read from a file, which `TOOLWRIGHT_<NAME>_FILE` names."""
FOREVER = "forever"
_MAX_COUNT = 2**31 - 1  # of counts: every journal can store it
_MAX_SECRET = 64 * 1024  # maximum bytes of such a file
_MAX_SECONDS = 100 * 365 * 86_400  # so that a date that long ago can be represented
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def variable(setting: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + setting.upper()


def file_variable(setting: str) -> str:
    """Return the environment variable that names a file with the value of a setting."""
    return f"{variable(setting)}_FILE"


def setting_errors(error: ValidationError, settings: Sequence[str]) -> str:
    """Return the errors, one sentence per setting. Values are never included, because they can be secrets."""
    return " ".join(
        _sentence(each["loc"], each["type"], form_error(each), settings) for each in error.errors()
    )


def warning(environment: Iterable[str], settings: Sequence[str]) -> str | None:
    """Return a sentence with the unknown variables of our prefix, or None."""
    known_names = [variable(name) for name in (*settings, *_ELSEWHERE)]
    known_names += [file_variable(name) for name in settings if name in SECRETS]
    unknown = sorted(
        name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known_names
    )
    if not unknown:
        return None
    listed = ", ".join(name + _nearest_name(name.upper(), known_names, len(PREFIX)) for name in unknown)
    return sentence(f"Unknown settings are ignored: {listed}")


def _sentence(place: tuple[int | str, ...], kind: str, message: str, settings: Sequence[str]) -> str:
    name = str(place[0]) if place else ""
    if kind == "extra_forbidden":
        return f"There is no setting {name!r}{_nearest_name(name, settings)}."
    return sentence(f"The setting {variable(name)} is not valid: {message[:1].lower()}{message[1:]}")


def _nearest_name(name: str, known_names: Sequence[str], same: int = 0) -> str:
    """Return the most similar known name, as a hint; the first `same` characters are common to all."""
    close = get_close_matches(name[same:], [each[same:] for each in known_names], n=1)
    return f" (did you mean {name[:same]}{close[0]}?)" if close else ""


OUTAGE = timedelta(minutes=10)
"""Default time that a run waits for its model, unless `max_outage` is set."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two or more letters: a single one is a Windows drive
_STORE = re.compile(r"s3://[^/]|file:///|memory://$")
_NODE = re.compile(r"https?://[^/?#@\s]+/?")
_EMBEDDER = re.compile(r"openai:[^\s\x00-\x1f]+")
# as browsers send it
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
Names = Annotated[tuple[str, ...], NoDecode]
Timeout = Annotated[timedelta, Field(gt=timedelta(0), le=timedelta(days=1))]


class _SecretFiles(PydanticBaseSettingsSource):
    """Settings source: values read from files, as mounted by Docker and Kubernetes for secrets."""

    def __call__(self) -> dict[str, Any]:  # the values are validated afterwards
        """Read the files that the environment names, except for settings given in Python."""
        environment = {name.upper(): each for name, each in os.environ.items()}
        paths = {name: environment.get(file_variable(name), "").strip() for name in SECRETS}
        return {
            name: _secret_in(Path(path), name, environment)
            for name, path in paths.items()
            if path and name not in self.current_state
        }

    def get_field_value(self, field: object, field_name: str) -> tuple[Any, str, bool]:
        """Return no value, because all files are read at once."""
        return None, field_name, False


def _secret_in(path: Path, setting: str, environment: Mapping[str, str]) -> str:
    """Return the text of the file without the line breaks at its end; its lines are the items of a list.

    Raises `DefinitionError` if the file cannot be read, or if the setting's own variable is also set.
    """
    name = file_variable(setting)
    if environment.get(variable(setting), "").strip():
        raise DefinitionError(f"Set {variable(setting)} or {name}, not both.")
    if path.exists() and not (path.is_file() or path.is_dir()):  # opening a FIFO would block
        raise DefinitionError(f"{name}: {str(path)!r} is not a file.")
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_SECRET + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DefinitionError(sentence(f"{name}: the file {str(path)!r} cannot be read: {reason}")) from None
    if len(content) > _MAX_SECRET or not text.strip():
        size = "larger than 64 KiB" if text.strip() else "empty"
        raise DefinitionError(f"{name}: the file {str(path)!r} is {size}.")
    return ",".join(text.splitlines()) if setting.endswith("_keys") else text


def _by_name(cls: type[S]) -> type[S]:
    """Reject positional arguments, which pydantic-settings would misinterpret."""
    signature = cls.__init__

    @wraps(signature)
    def init(self: S, *values: object, **named: Any) -> None:  # any input
        if values:
            raise DefinitionError(
                "Settings must be given by name, as in tw.Settings(database_url='sqlite:///journal.db')."
            )
        signature(self, **named)

    setattr(cls, "__init__", init)  # noqa: B010 - pyright rejects an assignment
    return cls


@_by_name
class Settings(BaseSettings):
    """Settings of a process: keyword arguments, or environment variables with the prefix `TOOLWRIGHT_`.

    A keyword argument overrides the variable. In the environment lists are comma-separated, durations are texts such as
    `30d`, `12h`, `10m` or `45s`, and an empty variable means the default; in Python a number is a number of seconds.
    Raises `DefinitionError`, which names each invalid setting.

    Attributes:
        database_url: The journal: `sqlite:///PATH`, `postgresql://…` or `memory://`. Default:
            `sqlite:///toolwright.db`.
        database_connections: Maximum number of connections to Postgres, 2 or more, half of them for reads. Default: 20.
        cluster: Message transport between the processes that execute the runs of one Postgres database: `postgres`
            (through that database), or the URLs of NATS servers (`nats://…`). Default: None, one process executes all
            runs.
        node_url: `http(s)://` address at which other processes of the cluster reach this one. Default: None.
        work: Whether the process executes runs. If False, it only serves requests. Default: True.
        files_url: The file store: a folder, `file:///PATH`, `s3://BUCKET/PREFIX` or `memory://`. Default: None, which
            is a folder next to an SQLite database, `toolwright.files` with Postgres, memory with `memory://`.
        encryption_keys: Fernet keys for secrets. The first encrypts, all decrypt. Default: none; an SQLite journal then
            creates a key file, and a Postgres journal rejects secrets.
        secret_keys: Keys of services, 16 characters or more: `KEY` with all rights, or `name(scope)=KEY` with the scope
            `metrics`, `read` or `all`. Default: none. Without any keys every caller on this machine has all rights, and
            the server only listens on this machine.
        public_keys: Keys of applications that people use; people's tokens must be verifiable. Default: none.
        jwt_secret: Secret with which people's tokens are signed (HS256), 32 bytes or more. Default: None.
        jwt_jwks_url: `https://` URL of the public keys that verify people's tokens, instead of `jwt_secret`. Default:
            None.
        jwt_entity_claim: The claim with a person's external id. Default: `sub`.
        jwt_roles_claim: The claim with a person's roles, also as a path: `realm_access.roles`. Default: `roles`.
        jwt_audience: Required audience (`aud`) of tokens. Default: None, any.
        jwt_issuer: Required issuer (`iss`) of tokens. Default: None, any.
        cors_origins: Origins of web pages that may call the server, or `*` alone. Default: none.
        model: Model of the prompts without their own, such as `openai:gpt-6.1-terra`. Default: None.
        embedder: Model that embeds passages, so that agents also find them by meaning, such as
            `openai:text-embedding-3-small`. Default: None, search by keywords only.
        max_steps: Maximum number of model calls in a run, unless its side sets `max_steps`. Default: 50.
        context_tokens: Maximum number of tokens of a request to a model, 1,000 or more. Default: None, the model's
            context window.
        summary_model: Model that writes the summaries of long conversations. Default: None, the agent's own.
        max_outage: How long a run waits for an unavailable model; with 0 it fails immediately. Default: None, which is
            10 minutes, or 0 with a journal in memory.
        model_timeout: Longest time without an event within a model's answer, after which it is requested again, up to a
            day. A prompt can set its own: `model_settings={"timeout": 30}`. Default: 10 minutes.
        model_request_timeout: Longest time of a whole answer, with its retries, up to a day; of a prompt:
            `model_settings={"request_timeout": 120}`. Default: 1 hour.
        max_chain_depth: Maximum length of a chain of agents that wake each other with messages. Default: 3.
        max_subagent_depth: Maximum depth of agents that call agents in child threads. Default: 8.
        max_body: Maximum size of a request's body in bytes. Default: 10 MiB, and 36 MiB for messages and agents.
        max_nesting: Maximum number of levels of objects and lists in a request's body, 4 to 64. Default: 64.
        max_json_values: Maximum number of JSON values in a request's body and in the response to an HTTP tool, 100 to
            1,000,000. Default: 100,000.
        max_attachment: Maximum size of one file in bytes. Default: 25 MiB.
        max_result_text: Maximum size in bytes of a result sent to a model, 1,024 or more. A longer result is stored
            completely in a file. Default: 256 KiB.
        max_http_answer: Maximum size of the response to an HTTP tool in bytes. Default: 1 MiB.
        http_allow: Private hosts, hosts with a port and networks (`10.1.0.0/16`) that HTTP tools and MCP servers
            configured from outside may reach. Default: none.
        docs: Who may read `/docs` and `/openapi.json`: True for callers with a key, `open` for everyone, False for no
            one. Default: True.
        mcp_server: Whether `/mcp` offers the app's tools to MCP hosts. Default: False.
        console: Whether the console is at `/console`. Default: False.
        concurrency: Maximum number of runs executed at once, 1 or more. Default: 1,000.
        sentry_dsn: Sentry DSN to which spans and exceptions of tools are sent. Default: None.
        trace_content: Whether spans contain arguments and results of calls. Default: False.
        log: Minimum level of the commands' logs: `debug`, `info`, `warning` or `error`. Default: `warning`.
        log_format: Format of the logs: `text`, or `json` with one object per line. Default: `text`.
        retain_events: How long events are kept; None (`forever` in the environment) means without a limit. Default: 7
            days.
        retain_runs: How long a thread is kept after its last run has ended. Default: None, without a limit.
        stop_delay: How long a server that is stopped (SIGTERM) still accepts requests, while `/ready` answers 503, up
            to 10 minutes. Default: None, which is 5 seconds if other processes serve the journal, otherwise 0.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", hide_input_in_errors=True
    )

    database_url: str = Field(default="sqlite:///toolwright.db", repr=False)
    database_connections: int = Field(default=20, ge=2, le=_MAX_COUNT)
    cluster: str | None = Field(default=None, repr=False)
    node_url: str | None = None
    work: bool = True
    files_url: str | None = None
    encryption_keys: Names = Field(default=(), repr=False)
    secret_keys: Names = Field(default=(), repr=False)
    jwt_secret: str | None = Field(default=None, repr=False)
    jwt_jwks_url: str | None = None
    jwt_entity_claim: str = Field(default="sub", min_length=1)
    jwt_roles_claim: str = Field(default="roles", min_length=1)
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    public_keys: Names = Field(default=(), validate_default=True)
    cors_origins: Names = ()
    model: str | None = None
    embedder: str | None = None
    max_steps: int = Field(default=50, ge=1, le=_MAX_COUNT)
    context_tokens: int | None = Field(default=None, ge=MIN_TOKENS, le=_MAX_COUNT)
    summary_model: str | None = None
    max_outage: Annotated[timedelta, Field(ge=timedelta(0))] | None = None
    model_timeout: Timeout = timedelta(minutes=10)
    model_request_timeout: Timeout = timedelta(hours=1)
    max_chain_depth: int = Field(default=3, ge=0, le=_MAX_COUNT)
    max_subagent_depth: int = Field(default=8, ge=1, le=_MAX_COUNT)
    max_body: int | None = Field(default=None, ge=1)
    max_nesting: int = Field(default=MAX_NESTING, ge=4, le=MAX_NESTING)
    max_json_values: int = Field(default=MAX_JSON_VALUES, ge=100, le=10 * MAX_JSON_VALUES)
    max_attachment: int = Field(default=MAX_ATTACHMENT, ge=1)
    max_result_text: int = Field(default=MAX_RESULT_TEXT, ge=1_024)
    max_http_answer: int = Field(default=MAX_HTTP_ANSWER, ge=1)
    http_allow: Names = ()
    docs: bool | Literal["open"] = True
    mcp_server: bool = False
    console: bool = False
    concurrency: int = Field(default=1_000, ge=1, le=_MAX_COUNT)
    sentry_dsn: str | None = Field(default=None, repr=False)
    trace_content: bool = False
    log: Literal["debug", "info", "warning", "error"] = "warning"
    log_format: Literal["text", "json"] = "text"
    retain_events: Annotated[timedelta, Field(gt=timedelta(0))] | None = timedelta(days=7)
    retain_runs: Annotated[timedelta, Field(gt=timedelta(0))] | None = None
    stop_delay: Annotated[timedelta, Field(ge=timedelta(0), le=timedelta(minutes=10))] | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of values, by priority: Python, files of secrets, the environment."""
        if not any(name.upper().startswith(PREFIX) for name in os.environ):
            return (init_settings,)  # looking up every setting takes a millisecond
        return init_settings, _SecretFiles(settings_cls), env_settings

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, handler: ModelWrapValidatorHandler["Settings"]) -> "Settings":
        """Validate the settings. Errors are raised as ours, without values, because these can be secrets."""
        try:
            return handler(values)
        except ValidationError as error:
            raise DefinitionError(setting_errors(error, list(cls.model_fields))) from None

    @property
    def executes_in_cluster(self) -> bool:
        """Return whether the process is one of several that execute runs."""
        return self.cluster is not None and self.work

    @property
    def executes_alone(self) -> bool:
        """Return whether the process prevents all others from executing runs."""
        return self.cluster is None and self.work

    @field_validator("cluster", "work")
    @classmethod
    def _on_a_shared_database(cls, value: Any, info: ValidationInfo) -> Any:
        url = str(info.data.get("database_url", ""))
        if info.field_name == "cluster" and value is not None:
            servers = [each.strip() for each in str(value).split(",")]
            if value != "postgres" and not all(each.startswith(("nats://", "tls://")) for each in servers):
                raise ValueError(
                    "must be postgres, or URLs of NATS servers (nats://host:4222), separated by commas"
                )
            if value != "postgres" and not all(map(names_host, servers)):
                raise ValueError(
                    "each NATS server needs a host, and a port from 1 to 65535 if it has one, as in nats://host:4222"
                )
        if info.field_name == "cluster" and value is not None and not url.startswith("postgres"):
            raise ValueError(
                "A cluster needs a Postgres database: set TOOLWRIGHT_DATABASE_URL to postgresql://…"
            )
        if value is False and url.startswith(MEMORY):
            raise ValueError("A process without work needs a shared database: set TOOLWRIGHT_DATABASE_URL")
        return value

    @field_validator("node_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value and not (_NODE.fullmatch(value) and names_host(value)):
            raise ValueError(
                "the URL of this process must be http:// or https://, a host and a port, without a path, as in "
                "http://10.0.0.3:8000"
            )
        return value or None

    @field_validator(
        "secret_keys", "public_keys", "cors_origins", "encryption_keys", "http_allow", mode="before"
    )
    @classmethod
    def _listed(cls, value: Any) -> Any:  # any input
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("secret_keys")
    @classmethod
    def _long_enough(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        keys = [_service_key(entry) for entry in value]
        if len(set(keys)) < len(keys):
            raise ValueError("each secret key must be listed once: the same key has two entries")
        if any(len(key) < MIN_KEY for key in keys):
            raise ValueError(
                f"a secret key of fewer than {MIN_KEY} characters can be guessed: make one with "
                "`toolwright keys new`"
            )
        return value

    @field_validator("http_allow")
    @classmethod
    def _reachable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Allowed.read(value)
        return value

    @field_validator("encryption_keys")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, key in enumerate(value, 1):
            if not _is_fernet_key(key):
                raise ValueError(
                    f"encryption key {number} is not a Fernet key (32 bytes in URL-safe base64): make one with "
                    "`toolwright keys new`"
                )
        return value

    @field_validator(
        "jwt_secret",
        "jwt_jwks_url",
        "jwt_audience",
        "jwt_issuer",
        "sentry_dsn",
        "model",
        "summary_model",
        mode="before",
    )
    @classmethod
    def _none_if_empty(cls, value: Any) -> Any:  # any input
        """Convert an empty variable to None."""
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("jwt_secret")
    @classmethod
    def _strong(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if "-----BEGIN" in value:
            raise ValueError("must be a secret, not a key in PEM form: publish public keys at jwt_jwks_url")
        if len(value.encode("utf-8", "surrogateescape")) < MIN_SECRET:
            raise ValueError(f"the secret that tokens are signed with must have {MIN_SECRET} bytes or more")
        return value

    @field_validator("jwt_jwks_url")
    @classmethod
    def _fetchable(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("jwt_secret") is not None:
            raise ValueError("set either jwt_secret or jwt_jwks_url, not both")
        if value is not None and not is_safe_url(value):
            raise ValueError(
                f"the URL must begin with https:// (http:// on this machine only), not {url_scheme(value)!r}"
            )
        return value

    @field_validator("public_keys")
    @classmethod
    def _complete(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        valid = info.data
        if not {"jwt_secret", "jwt_jwks_url"} <= set(valid):  # the invalid one is reported already
            return value
        verified = valid["jwt_secret"] is not None or valid["jwt_jwks_url"] is not None
        if value and not verified:
            raise ValueError(
                "public_keys require a way to verify people's tokens: set jwt_secret or jwt_jwks_url"
            )
        if verified and not value:
            raise ValueError(
                "jwt_secret and jwt_jwks_url have no effect without public_keys: set public_keys"
            )
        if set(value) & {_service_key(entry) for entry in valid.get("secret_keys", ())}:
            raise ValueError("a public key must not be a secret key too: its holder would have all rights")
        return value

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: str) -> str:
        if ":memory:" in value:
            raise ValueError("an in-memory journal must be written as memory://")
        if not value.startswith(("sqlite:///", "postgresql://", "postgres://", MEMORY)):
            raise ValueError(
                "database_url must begin with sqlite:/// (and a path), postgresql:// or memory://, "
                f"not {url_scheme(value)!r}"
            )
        if value.startswith("sqlite:///") and "?" in value:
            raise ValueError("a SQLite URL has no options: what follows sqlite:/// is the path of the file")
        if value.startswith("postgres") and not has_valid_ports(value):
            raise ValueError(
                "the port of a Postgres server must be a number from 1 to 65535; in a user name or password, write the "
                "characters / ? # @ : as %2F %3F %23 %40 %3A"
            )
        return value

    @field_validator("files_url")
    @classmethod
    def _store(cls, value: str | None) -> str | None:
        """Validate `files_url`. A folder's name can be anything except a URL of an unknown scheme."""
        if value and _SCHEME.match(value) and not _STORE.match(value):
            raise ValueError(
                f"files_url must be a folder, file:///, s3:// or memory://, not {url_scheme(value)!r}"
            )
        return value or None

    @field_validator("retain_events", "retain_runs", "model_timeout", "model_request_timeout", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> Any:  # any input
        return read_duration(value) if isinstance(value, str) else value

    @field_validator("max_outage", "stop_delay", mode="before")
    @classmethod
    def _duration_or_zero(cls, value: Any) -> Any:  # any input
        if not isinstance(value, str):
            return value
        if value.strip() == "0":
            return timedelta(0)
        return read_duration(value) or timedelta.max

    @field_validator("log", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:  # any input
        """Accept level names in upper case, as in Python's logging."""
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("embedder")
    @classmethod
    def _embedder(cls, value: str | None) -> str | None:
        if value and not _EMBEDDER.fullmatch(value):
            raise ValueError(
                f"the embedder must be a model of openai, as in openai:text-embedding-3-small, not {value!r}"
            )
        return value or None

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin == "*" and len(value) > 1:
                raise ValueError("* allows every origin: use it alone, or leave it out")
            if origin != "*" and not (_ORIGIN.fullmatch(origin) and names_host(origin)):
                raise ValueError(
                    f"an origin must be a scheme and a host, as in https://shop.example or http://localhost:5173, "
                    f"without a path, not {origin!r}"
                )
        return value

    @property
    def files_folder(self) -> Path | None:
        """The folder of files, or None if they are stored elsewhere."""
        if self.files_url is None:
            if (path := self.sqlite_path) is not None:
                return path.with_name(f"{path.name}.files")
            return None if self.database_url.startswith(MEMORY) else Path("toolwright.files")
        if self.files_url.startswith(("s3://", MEMORY)):
            return None
        return Path(self.files_url.removeprefix("file://"))

    @property
    def longest_outage(self) -> timedelta:
        """Return how long a run waits for an unavailable model. The default with a journal in memory is not to wait."""
        if self.max_outage is not None:
            return self.max_outage
        return timedelta(0) if self.database_url.startswith(MEMORY) else OUTAGE

    @property
    def drain_seconds(self) -> float:
        """Return for how many seconds a stopped server still accepts requests."""
        if self.stop_delay is not None:
            return self.stop_delay.total_seconds()
        return 5.0 if self.cluster is not None or not self.work else 0.0

    @property
    def keyed(self) -> bool:
        """Return whether callers need a key. Otherwise all callers are services on this machine."""
        return bool(self.secret_keys or self.public_keys)

    @property
    def sqlite_path(self) -> Path | None:
        """The file of an SQLite journal, or None for any other journal."""
        if not self.database_url.startswith("sqlite:"):
            return None
        return Path(self.database_url.removeprefix("sqlite:///") or "toolwright.db")


def _is_fernet_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, altchars=b"-_", validate=True)) == 32
    except ValueError:
        return False


def _service_key(entry: str) -> str:
    """Return the key of an entry of the secret keys. Raises `ValueError` for an invalid entry."""
    from toolwright.web.auth.access import ServiceKey  # noqa: PLC0415 - keeps the import light

    return ServiceKey.read(entry).key


_WRITTEN = re.compile(r"(\d{1,9})\s*([smhdw])", re.ASCII)


def read_duration(text: str) -> timedelta | None:
    """Parse a duration (`30d`, `12h`, `90m` or `45s`). Returns None for `forever`.

    Raises `ValueError` with examples of durations. A number without a unit is refused, because days could be meant.
    """
    text = text.strip()
    if text.lower() == FOREVER:
        return None
    if text.isascii() and text.isdecimal() and text.strip("0"):
        raise ValueError(f"must be a duration with a unit, such as {brief(text, 20)}s or {brief(text, 20)}d")
    written = _WRITTEN.fullmatch(text.lower())
    seconds = 0 if written is None else int(written[1]) * _SECONDS[written[2]]
    if not 0 < seconds <= _MAX_SECONDS:
        raise ValueError(
            f"must be a duration such as 30d, 12h, 90m or 45s, up to 100 years, or {FOREVER}, "
            f"not {brief(repr(text), 100)}"
        )
    return timedelta(seconds=seconds)
