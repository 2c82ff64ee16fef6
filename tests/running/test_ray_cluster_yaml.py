"""The two cluster files, checked offline by the validator that ``ray up`` itself uses."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

from tests.places import ROOT

LOCAL = ROOT / "ray_cluster.yaml"
AWS = ROOT / "docs" / "ray_cluster_aws.yaml"
BOTH = pytest.mark.parametrize("path", [LOCAL, AWS], ids=["local", "aws"])


class ClusterFileError(ValueError):
    """Ray would refuse this cluster file."""


def load(path: Path) -> dict[str, Any]:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(config, dict)
    return config


def validate(config: dict[str, Any]) -> dict[str, Any]:
    """What ``ray up`` makes of a cluster file; ClusterFileError if it refuses it.

    The only place that touches Ray's private API (pyproject.toml holds Ray to one minor version): the
    public way is ``ray up``, which needs the machines.
    """
    from ray.autoscaler._private.util import prepare_config, validate_config

    try:
        prepared = prepare_config(copy.deepcopy(config))
        validate_config(prepared)
    except (click.ClickException, jsonschema.ValidationError, ValueError, RuntimeError) as error:
        raise ClusterFileError(str(error)) from error
    return dict(prepared)


@BOTH
def test_ray_accepts_the_file(path: Path) -> None:
    prepared = validate(load(path))
    types = prepared["available_node_types"]
    assert prepared["head_node_type"] in types
    assert prepared["max_workers"] >= sum(kind.get("min_workers", 0) for kind in types.values())


def test_local_worker_counts_agree_with_the_addresses() -> None:
    config = load(LOCAL)
    assert config["min_workers"] <= config["max_workers"] <= len(config["provider"]["worker_ips"])
    # The local provider knows one type of node, to which Ray moves the two counts.
    (kind,) = validate(config)["available_node_types"].values()
    assert (kind["min_workers"], kind["max_workers"]) == (config["min_workers"], config["max_workers"])


def test_aws_workers_are_bounded_and_the_head_runs_no_sweep() -> None:
    types = validate(load(AWS))["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0}
    assert 0 <= types["worker"]["min_workers"] <= types["worker"]["max_workers"] <= 32


@BOTH
def test_every_start_of_ray_is_without_telemetry_and_with_a_token(path: Path) -> None:
    config = load(path)
    head = " ".join(config["head_start_ray_commands"])
    worker = " ".join(config["worker_start_ray_commands"])
    for commands in (head, worker):
        assert "RAY_AUTH_MODE=token" in commands
        # `sweeper worker` sets the rest itself (test_machine.py).
        assert commands.count("ray start") + commands.count("sweeper worker") == 1
        assert "sweeper worker" in commands or "RAY_USAGE_STATS_ENABLED=0" in commands
    assert "--disable-usage-stats" in head
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


@BOTH
def test_the_nodes_install_the_lock(path: Path) -> None:
    setup = load(path)["setup_commands"]
    assert any(command.endswith(" setup") and " make " in command for command in setup)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all: -r requirements.lock" in recipe


@BOTH
def test_a_bare_ray_is_found_on_the_nodes(path: Path, tmp_path: Path) -> None:
    """The command that makes it so, on a home with and without a .bashrc; twice changes nothing."""
    (command,) = [command for command in load(path)["setup_commands"] if ".bashrc" in command]
    for content in (None, "", "case $- in *i*) ;; *) return;; esac\n"):
        home = tmp_path / f"home{content is None}{content == ''}"
        (home / "sweeper" / ".venv" / "bin").mkdir(parents=True)
        (home / "sweeper" / ".venv" / "bin" / "ray").touch(mode=0o755)
        if content is not None:
            (home / ".bashrc").write_text(content)
        for _ in range(2):
            subprocess.run(["bash", "-c", command], env={**os.environ, "HOME": str(home)}, check=True)
        assert (home / ".bashrc").read_text().count("sweeper/.venv/bin") == 1
        ask = f"source {home}/.bashrc; command -v ray"
        found = subprocess.run(["bash", "-c", ask], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
                               capture_output=True, text=True, check=True)  # fmt: skip
        assert found.stdout.strip() == str(home / "sweeper" / ".venv" / "bin" / "ray")


def test_the_autoscaler_that_counts_the_head_is_off_where_machines_are_listed() -> None:
    assert "RAY_enable_autoscaler_v2=0" in " ".join(load(LOCAL)["head_start_ray_commands"])


@BOTH
def test_no_secret_in_the_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|aws_secret|password|\b[0-9a-f]{40,}\b", text)


@BOTH
def test_an_unknown_key_is_refused(path: Path) -> None:
    config = load(path)
    config["idle_timeout_minuts"] = 5
    with pytest.raises(ClusterFileError, match="idle_timeout_minuts"):
        validate(config)


@pytest.mark.parametrize("key", ["head_ip", "worker_ips"])
def test_missing_addresses_are_refused(key: str) -> None:
    config = load(LOCAL)
    del config["provider"][key]
    with pytest.raises(ClusterFileError):
        validate(config)


def test_an_unknown_head_type_is_refused() -> None:
    config = load(AWS)
    config["head_node_type"] = "hed"
    with pytest.raises(ClusterFileError, match="head_node_type"):
        validate(config)


def test_more_workers_wanted_than_allowed_is_refused() -> None:
    config = load(AWS)
    config["available_node_types"]["worker"]["min_workers"] = 5
    config["max_workers"] = 4
    with pytest.raises(ClusterFileError, match="max_workers"):
        validate(config)
