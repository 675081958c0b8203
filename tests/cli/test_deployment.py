"""Dockerfile, compose files, the Helm chart and systemd: linted, and their commands executed literally."""

import configparser
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from tests.postgres_server import fresh_database
from tests.prerequisites import missing
from toolwright.adapters.store.postgres.connection import connect
from toolwright.cli.output import USAGE
from toolwright.cli.serve import GRACE
from toolwright.wiring.gateway import REQUEST_GRACE
from toolwright.wiring.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
VARIABLE = re.compile(r"\$\{(\w+)(:[-?][^}]*)?\}")


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]  # keep the case of names
    parsed.read_string((ROOT / "deploy" / "toolwright.service").read_text(encoding="utf-8"))
    return parsed


def instructions(name: str) -> list[str]:
    """Return the arguments of each occurrence of an instruction in the Dockerfile, on one line each."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def settings_among(names: set[str]) -> set[str]:
    return {name.removeprefix("TOOLWRIGHT_").lower() for name in names if name.startswith("TOOLWRIGHT_")}


def test_the_linter_of_dockerfiles_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_no_root_and_only_what_it_copies() -> None:
    assert instructions("USER") == ["10001"]
    sources = [each for line in instructions("COPY") if "--from" not in line for each in line.split()[:-1]]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "*"
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in kept, f"{source} is kept out of the build"
    links = [path for path in (ROOT / "src").rglob("*") if path.is_symlink()]
    assert {path.resolve().relative_to(ROOT).as_posix() for path in links} <= {*sources}, (
        "its target is missing"
    )


def test_what_is_installed_in_the_image_is_locked_by_hashes() -> None:
    locked = (ROOT / "requirements" / "server.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([a-z0-9._-]+)==", locked, re.MULTILINE)
    assert {"fastapi", "asyncpg", "nats-py", "openai", "anthropic", "mcp"} <= set(names)
    assert locked.count("--hash=sha256:") > len(names)
    assert "://" not in locked
    newest = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    assert not [pin for pin in re.findall(r"^\S+==\S+", locked, re.MULTILINE) if pin not in newest]


def test_the_command_of_the_image_serves_and_its_health_check_sees_it(shell: Shell) -> None:
    [entry], [command] = instructions("ENTRYPOINT"), instructions("CMD")[-1:]
    [check] = [json.loads(line.partition("CMD ")[2]) for line in instructions("HEALTHCHECK")]
    arguments: list[str] = [*json.loads(entry), *json.loads(command)]
    assert arguments[:3] == ["toolwright", "serve", "app:app"]
    arguments[arguments.index("--port") + 1] = "0"
    shell.env["TOOLWRIGHT_SECRET_KEYS"] = "sk_0123456789abcdef"  # required to listen on all addresses
    assert check[-1].count(":8000/live'") == 1  # a container is not restarted because its database is away
    with shell.start(*arguments[1:]) as server:
        port = url_of(server).rpartition(":")[2]
        looked = [sys.executable, *check[1:-1], check[-1].replace(":8000", f":{port}")]
        assert subprocess.run(looked, capture_output=True).returncode == 0
        server.ctrl_c()
        assert server.end() == 0
    assert subprocess.run(looked, capture_output=True).returncode != 0


def test_the_compose_file_asks_for_what_its_example_lists_and_names_real_settings() -> None:
    services = COMPOSE["services"]
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    asked = {name for name, default in VARIABLE.findall(text) if default.startswith(":?")}
    listed = set(
        re.findall(r"^(\w+)=", (ROOT / "deploy" / "compose.env").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert asked <= listed
    assert listed == {name for name, _ in VARIABLE.findall(text)}
    assert settings_among(set(services["toolwright"]["environment"])) <= Settings.model_fields.keys()
    mounted = {volume.partition(":")[0] for each in services.values() for volume in each["volumes"]}
    assert COMPOSE["volumes"].keys() <= mounted
    assert services["toolwright"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "healthcheck" in services["postgres"]


def test_the_compose_file_of_a_cluster_asks_for_the_same_and_upgrades_the_tables_before_its_nodes() -> None:
    text = (ROOT / "compose.cluster.yaml").read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]
    assert set(VARIABLE.findall(text)) == set(
        VARIABLE.findall((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    )
    environment = dict(services["toolwright"]["environment"])
    alone = COMPOSE["services"]["toolwright"]
    assert environment.pop("TOOLWRIGHT_CLUSTER").startswith("nats://")
    assert environment == alone["environment"]
    assert services["postgres"] == COMPOSE["services"]["postgres"]
    for name in ("toolwright", "upgrade"):
        kept = ("build", "read_only", "tmpfs", "security_opt", "cap_drop", "volumes")
        assert [services[name][key] for key in kept] == [alone[key] for key in kept]
    assert services["upgrade"]["command"] == ["db", "upgrade"]
    assert services["toolwright"]["depends_on"]["upgrade"]["condition"] == "service_completed_successfully"
    assert services["toolwright"]["command"] == json.loads(instructions("CMD")[-1])
    assert "ports" not in services["toolwright"] and "ports" not in services["nats"]
    [proxied] = re.findall(
        r"dynamic a (\w+) (\d+)", (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    )
    assert proxied == ("toolwright", json.loads(instructions("CMD")[-1])[-1])


def test_a_node_of_the_compose_file_tells_others_its_own_address(tmp_path: Path) -> None:
    for name, text in (("toolwright", 'echo "$TOOLWRIGHT_NODE_URL $@"'), ("hostname", "echo 10.0.0.3")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    services = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text(encoding="utf-8"))["services"]
    entry = [each.replace("$$", "$") for each in services["toolwright"]["entrypoint"]]
    command = [*entry, *services["toolwright"]["command"]]
    said = subprocess.run(
        command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert said.stdout == "http://10.0.0.3:8000 serve app:app --host 0.0.0.0 --port 8000\n"


CHART = ROOT / "deploy" / "helm"
ALL = ("nats.enabled=true", "autoscaling.enabled=true")


def helm(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run Helm, which is installed with the development tools on Linux."""
    program = Path(sys.executable).with_name("helm")
    if not program.exists():
        missing("There is no program `helm` for this machine among the development tools.")
    return subprocess.run([program, *arguments], capture_output=True, text=True)


def rendered(*values: str) -> dict[str, Any]:
    """Return what the chart installs as the release `shop` with these values, by its kind and name."""
    options = [part for value in values for part in ("--set", value)]
    done = helm("template", "shop", CHART, *options)
    assert done.returncode == 0, done.stderr
    resources = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in resources}


def test_the_linter_of_helm_finds_nothing_and_wrong_values_are_refused() -> None:
    for values in ((), ALL):
        options = [part for value in values for part in ("--set", value)]
        done = helm("lint", "--strict", CHART, *options)
        assert done.returncode == 0, done.stdout
    wrong = helm("template", CHART, "--set", "replica=5")
    assert wrong.returncode != 0 and "replica" in wrong.stderr


def container(resource: Any) -> Any:
    [found] = resource["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_what_is_installed_on_kubernetes_is_of_its_schemas(version: str) -> None:
    resources = rendered("nats.enabled=true")
    assert sorted(resources) == [
        "Deployment shop", "Deployment shop-nats", "Job shop-upgrade", "NetworkPolicy shop-nats",
        "PodDisruptionBudget shop", "Service shop", "Service shop-nats",
    ]  # fmt: skip
    for each in resources.values():
        kubernetes_validate.validate(each, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        wrong = {**resources["Deployment shop"], "spec": {"replica": 3}}
        kubernetes_validate.validate(wrong, version, strict=True)
    assert sorted(rendered()) == [
        "Deployment shop", "Job shop-upgrade", "PodDisruptionBudget shop", "Service shop",
    ]  # fmt: skip
    assert rendered("replicas=5")["Deployment shop"]["spec"]["replicas"] == 5


def test_pods_serve_and_upgrade_as_the_image_does_and_route_by_its_port() -> None:
    found = rendered("image.repository=registry.example/shop", "image.tag=1.4.0", "secret=keys")
    service, nodes = found["Service shop"], found["Deployment shop"]
    budget, job = found["PodDisruptionBudget shop"], found["Job shop-upgrade"]
    node, upgrade = container(nodes), container(job)
    assert node["image"] == upgrade["image"] == "registry.example/shop:1.4.0"
    assert node["envFrom"] == upgrade["envFrom"] == [{"secretRef": {"name": "keys"}}]
    # before the nodes start
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "command" not in node and "args" not in node  # it uses the command of the image
    assert upgrade["args"] == ["db", "upgrade"]
    [port] = node["ports"]
    assert str(port["containerPort"]) == json.loads(instructions("CMD")[-1])[-1]
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]
    labels = nodes["spec"]["template"]["metadata"]["labels"]
    for selector in (nodes["spec"]["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector.items() <= labels.items()
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert job["spec"]["template"]["metadata"]["labels"] != labels  # it receives no requests
    probes = {node[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe")}
    assert probes == {"/ready", "/live"}
    for each in (nodes, job):
        context = each["spec"]["template"]["spec"]["securityContext"]
        assert context["runAsNonRoot"] and [str(context["runAsUser"])] == instructions("USER")


MORE: Any = {
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "env": [{"name": "TOOLWRIGHT_MODEL", "value": "openai:gpt-6.1-terra"}],
    "envFrom": [{"configMapRef": {"name": "more"}}],
    "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
    "volumeMounts": [{"name": "keys", "mountPath": "/run/secrets", "readOnly": True}],
    "podAnnotations": {"prometheus.io/scrape": "true"},
    "serviceAnnotations": {"example.com/internal": "true"},
    "preStopSeconds": 7,
}


def test_what_clusters_need_of_pods_is_passed_to_the_nodes_and_the_upgrade(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(MORE), encoding="utf-8")
    done = helm("template", "shop", CHART, "--values", tmp_path / "values.yaml", "--set", "nats.enabled=true")
    assert done.returncode == 0, done.stderr
    resources = [each for each in yaml.safe_load_all(done.stdout) if each]
    for version in ("1.25", "1.37"):
        for each in resources:
            kubernetes_validate.validate(each, version, strict=True)
    found = {f"{each['kind']} {each['metadata']['name']}": each for each in resources}
    nodes, job, nats = found["Deployment shop"], found["Job shop-upgrade"], found["Deployment shop-nats"]
    for each in (nodes, job, nats):
        pod = each["spec"]["template"]["spec"]
        assert pod["enableServiceLinks"] is False
        assert {
            name: pod[name] for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity")
        }.items() <= (MORE.items())
    for each in (nodes, job):
        of_container, pod = container(each), each["spec"]["template"]["spec"]
        assert of_container["env"][-1:] == MORE["env"]
        assert of_container["envFrom"] == [{"secretRef": {"name": "toolwright"}}, *MORE["envFrom"]]
        assert of_container["volumeMounts"][1:] == MORE["volumeMounts"]
        assert pod["volumes"][1:] == MORE["volumes"]
    assert nodes["spec"]["template"]["metadata"]["annotations"] == MORE["podAnnotations"]
    assert found["Service shop"]["metadata"]["annotations"] == MORE["serviceAnnotations"]
    assert container(nodes)["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "7"]


def test_a_pod_has_time_to_leave_its_service_and_to_stop() -> None:
    values: Any = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert MORE.keys() <= values.keys()
    cluster = Settings(database_url="postgresql://db/x", cluster="postgres")
    longest = values["preStopSeconds"] + cluster.drain_seconds + REQUEST_GRACE + GRACE
    pod = rendered()["Deployment shop"]["spec"]["template"]["spec"]
    assert cluster.drain_seconds > 0
    assert longest < pod["terminationGracePeriodSeconds"]


@pytest.mark.anyio
async def test_nodes_are_added_for_busy_slots_and_for_wake_ups_that_wait() -> None:
    found = rendered(*ALL, "autoscaling.max=7")
    scaled, nodes = found["ScaledObject shop"], found["Deployment shop"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == nodes["metadata"]["name"]
    assert "replicas" not in nodes["spec"] and scaled["spec"]["maxReplicaCount"] == 7
    [trigger] = scaled["spec"]["triggers"]
    node = "INSERT INTO nodes (id, version, slots, busy, seen) VALUES ($1, '', 1000, $2, $3)"
    wake = "INSERT INTO wakes (thread_id, due, gen) VALUES ($1, $2, 1)"
    now = int(time.time() * 1_000_000)
    async with fresh_database() as url:
        session = await connect(url)

        async def value() -> float:
            return float(await session.fetchval(trigger["metadata"]["query"]))

        assert await value() == 0
        for name, busy, seen in (("a", 1_000, now), ("b", 500, now), ("dead", 1_000, now - 60_000_000)):
            await session.execute(node, name, busy, seen + 1_000_000_000 * (name != "dead"))
        await session.execute(wake, "later", now + 3_600_000_000)
        assert await value() == 1.5  # as if the nodes were busy
        await session.execute(wake, "late", now - 60_000_000)
        assert await value() == 2.5
        await session.close()


GUIDE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
KEYS_FILE, PROGRAM = "/etc/toolwright.env", "/opt/toolwright/.venv/bin/toolwright"


def test_the_guide_writes_the_keys_that_the_unit_reads_or_nothing(shell: Shell) -> None:
    written = (ROOT / "deploy" / "toolwright.service").read_text(encoding="utf-8")
    [line] = [each for each in GUIDE.splitlines() if "keys new" in each and KEYS_FILE in each]
    assert f"#   {line}" in written.splitlines()
    file, program = shell.folder / "toolwright.env", shell.folder / "toolwright"
    command = line.removeprefix("sudo ").replace(KEYS_FILE, str(file)).replace(PROGRAM, str(program))

    def execute() -> int:
        return subprocess.run(shlex.split(command), capture_output=True).returncode

    assert execute() != 0  # there is no such program
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m toolwright.cli "$@"\n')
    program.chmod(0o755)
    assert not file.exists()
    assert execute() == 0
    assert (file.stat().st_mode & 0o777, "TOOLWRIGHT_SECRET_KEYS=sk_" in file.read_text()) == (0o600, True)
    kept = file.read_text()
    assert execute() != 0
    assert file.read_text() == kept
    assert unit()["Unit"]["AssertFileNotEmpty"] == unit()["Service"]["EnvironmentFile"] == KEYS_FILE
    assert unit()["Service"]["RestartPreventExitStatus"] == str(USAGE)


def test_a_system_service_without_keys_does_not_start(shell: Shell) -> None:
    serve = f"{sys.executable} -m toolwright.cli serve --port 0"
    variables = shell.variables()
    for command in (
        f"SYSTEMD_EXEC_PID=$$ exec {serve}",
        f"JOURNAL_STREAM=$(stat -Lc %d:%i /dev/fd/2) {serve}",
    ):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=shell.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert (done.returncode, done.stdout) == (USAGE, "")
        assert "A system service needs keys" in done.stderr
    assert list(shell.folder.glob("toolwright.db*")) == []
    started = ("SYSTEMD_EXEC_PID", "JOURNAL_STREAM", "INVOCATION_ID")  # of the terminal's own service
    shell.env |= dict.fromkeys(started, "1:1")
    for more in ((), ("--insecure",)):
        with shell.start("serve", "--port", "0", *more) as server:
            url_of(server)
            server.ctrl_c()
            assert server.end() == 0
            assert f"every caller on {'any' if more else 'this'} machine has all rights" in server.shown


def test_the_unit_starts_the_server_with_real_settings() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, arguments[:2]) == ("toolwright", ["serve", "app:app"])
    assigned = {each.partition("=")[0] for each in shlex.split(service["Environment"])}
    assert settings_among(assigned) <= Settings.model_fields.keys()
    assert service["KillSignal"] == "SIGTERM"
