"""cluster.yaml is what Ray's launcher takes, and its commands are what the documentation says of them."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml
from hosts import LAUNCHER, settings
from ray.autoscaler._private.util import prepare_config, validate_config


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(LAUNCHER.read_text())
    return loaded


def test_ray_takes_it(config: dict[str, Any]) -> None:
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    nodes = prepared["available_node_types"][prepared["head_node_type"]]
    assert nodes["min_workers"] == nodes["max_workers"] == len(config["provider"]["worker_ips"])


def test_no_worker_is_left_out_for_the_head(config: dict[str, Any]) -> None:
    # Seen on Ray 2.60: by the second autoscaler two workers and a head are two nodes.
    assert "RAY_enable_autoscaler_v2=0" in config["head_start_ray_commands"][-1]


def test_ray_would_refuse_a_misspelt_key(config: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate_config(prepare_config(config | {"setup_comands": []}))


def test_every_host_checks_the_checkpoint_once_the_package_is_installed(config: dict[str, Any]) -> None:
    prepared = prepare_config(copy.deepcopy(config))
    for commands in (prepared["head_setup_commands"], prepared["worker_setup_commands"]):
        installs = next(place for place, command in enumerate(commands) if "pip install" in command)
        checks = next(place for place, command in enumerate(commands) if "runner doctor --checkpoint /" in command)
        assert installs < checks


def test_tokens_are_on_and_never_in_a_command(config: dict[str, Any]) -> None:
    for commands in (config["head_start_ray_commands"], config["worker_start_ray_commands"]):
        assert "RAY_AUTH_MODE=token" in commands[-1]
    assert "RAY_AUTH_TOKEN=" not in LAUNCHER.read_text()
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


def test_a_link_may_fail_for_twenty_seconds() -> None:
    said = {name.removeprefix("RAY_"): int(value) for name, value in settings("head").items()}
    failures = said["health_check_failure_threshold"]
    given_up = (said["health_check_period_ms"] + said["health_check_timeout_ms"]) * failures
    # A host that cannot be reached fails each check at once, one that does not answer by its time-out.
    assert said["health_check_period_ms"] * failures >= 25_000
    assert given_up <= 50_000
    for kind in ("head", "worker"):
        # No connection is dropped by one of its ends before the host is given up by all.
        assert int(settings(kind)["RAY_grpc_keepalive_timeout_ms"]) > given_up
