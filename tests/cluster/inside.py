"""The test itself, within its namespaces: python -m tests.cluster.inside DIRECTORY"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.chaos.__main__ import contents
from tests.cluster.hosts import Host, Site
from tests.places import ROOT
from tests.support.report import Report

ENTER = "export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token; cd ~/sweeper; .venv/bin/"
CHAOS = ROOT / "tests" / "chaos" / "study.yaml"
MEMORIES, LINKS = ("GB/s, 50]", "GB/s, 200]"), ("GB/s, 40]", "GB/s, 1500]")
"""A study, and what makes so much of it that a host can be cut and another one join meanwhile."""
UP_S = 300.0
"""In which a cluster has all its workers."""
DOWN_S = 60.0
"""After which nothing of Ray runs any more."""
PART_S = 300.0
OPERATOR = "192.0.2.1"
JOINING = "192.0.2.60"
JOBS, JOBS_AT = "http://127.0.0.1:8265", "127.0.0.1/8265"


def image(site: Site, config: dict[str, Any]) -> None:
    """Install what the head of the cluster file says on one host, whose home the others begin with."""
    (site.image / ".config" / "pip").mkdir(parents=True)
    (site.image / ".config" / "pip" / "pip.conf").write_text(
        f"[global]\nno-index = true\nfind-links = {site.work / 'wheels'}\n"
    )
    clone = next(line for line in config["setup_commands"] if "git clone" in line)
    address = next(word for word in clone.split() if word.startswith("ssh://"))
    (site.image / ".gitconfig").write_text(f'[url "{site.work / "origin.git"}"]\n\tinsteadOf = {address}\n')
    (site.image / ".ssh").mkdir(mode=0o700)
    key = site.image / ".ssh" / Path(config["auth"]["ssh_private_key"]).name
    key.write_bytes(site.key.read_bytes())
    key.chmod(0o600)
    builder = Host(site, "builder", "192.0.2.253", bare=True)
    builder.run(f"git clone -q {address} ~/sweeper && cd ~/sweeper && make setup")
    builder.run("cd ~/sweeper && .venv/bin/python -m pip install -q --no-build-isolation -e '.[cluster]'")
    builder.cut()


def until(moment: Callable[[], Any], seconds: float) -> Any:
    """What something says once it says something; what it says last if it never does."""
    end = time.monotonic() + seconds
    while not (said := moment()) and time.monotonic() < end:
        time.sleep(1.0)
    return said


def of_ray() -> list[str]:
    """Processes of Ray on all hosts."""
    words = ("raylet", "gcs_server", "ray::", "/ray/_private/", "/ray/dashboard/", "sweeper.running.on_ray")
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(word in line for word in words) and not line.startswith("ssh ")]


def processors(head: Host, config: dict[str, Any]) -> float:
    """Processors of the cluster's workers, as `ray status` tells them; 0 if it does not."""
    told = re.search(r"/([\d.]+) CPU", head.run(f"{ENTER}ray status", check=False).stdout)
    return float(told[1]) if told else 0.0


def compiled(host: Host) -> tuple[int, int]:
    """Kernels that a host has compiled, and that it has taken over."""
    look = "grep -rl --include=*.turn '{}' ~/.cache/sweeper | wc -l"
    own, taken = (int(host.run(look.format(word)).stdout) for word in ("which compiles", "which takes over"))
    return own, taken


def evaluated(out: Path) -> dict[str, bytes]:
    """Everything that a complete run has written; nothing where there is none."""
    return contents(out) if out.exists() else {}


def main(work: Path) -> int:
    """All steps; how many things were not as they have to be."""
    config = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())
    provider, report, site = config["provider"], Report(), Site(work)
    names = {address: f"worker{number}" for number, address in enumerate(provider["worker_ips"], 1)}
    site.prepare({OPERATOR: "operator", provider["head_ip"]: "head", **names, JOINING: "joining"})
    small, study = site.shared / "small.yaml", site.shared / "study.yaml"
    small.write_text(CHAOS.read_text())
    study.write_text(CHAOS.read_text().replace(*MEMORIES).replace(*LINKS))
    with report.step("install") as found:
        image(site, config)
        found(True, "one host, whose home the others begin with")
    operator = Host(site, "operator", OPERATOR)
    head = Host(site, "head", provider["head_ip"])
    workers = [Host(site, name, address) for address, name in names.items()]
    joining = Host(site, "joining", JOINING)
    each = float(operator.run("nproc").stdout)
    with report.step("undisturbed") as found:
        operator.run(f"{ENTER}sweeper run {study} --threads 2 -q --out {site.shared / 'alone'}", seconds=1200.0)
        expected = evaluated(site.shared / "alone")
        found(len(expected) > 50, f"{len(expected)} files, by one process on one host")
    with report.step("ray up") as found:
        operator.run(f"{ENTER}ray get-auth-token --generate > /dev/null")
        operator.run(f"{ENTER}ray up -y --disable-usage-stats ray_cluster.yaml")
        wanted = each * len(workers)
        there = until(lambda: processors(head, config) >= wanted, UP_S)
        found(bool(there), f"{len(workers)} addresses, {processors(head, config):g} of {wanted:g} processors")
    tunnel = subprocess.Popen(operator.command(f"{ENTER}ray dashboard ray_cluster.yaml"), stdout=subprocess.DEVNULL)
    until(lambda: operator.run(f"exec 3<>/dev/tcp/{JOBS_AT}", check=False).returncode == 0, UP_S)

    def submit(what: Path, out: Path) -> "subprocess.Popen[str]":
        run = f"cd ~/sweeper && .venv/bin/sweeper run {what} -q --address auto --out {out}"
        line = operator.command(f"{ENTER}ray job submit --address {JOBS} -- bash -c '{run}'")
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    with report.step("ray job submit") as found:
        job = submit(small, site.shared / "small")
        said, _ = job.communicate(timeout=900.0)
        found(job.returncode == 0, "ended" if job.returncode == 0 else said[-2000:])
    with report.step("kernels") as found:
        counts = {host.name: compiled(host) for host in workers}
        at_it = [name for name, (own, _) in counts.items() if own]
        found(len(at_it) == 1, f"one host compiles, {at_it} did; compiled and taken over by each: {counts}")
        found(any(taken for _, taken in counts.values()), "others take over what it has compiled")
    with report.step("a host cut, another one joined") as found:
        out = site.shared / "out"
        job = submit(study, out)
        begun = until(lambda: len(list(out.glob("*/data/part-*"))) > 5, PART_S)
        workers.pop(0).cut()
        token = head.run("cat ~/.ray/auth_token").stdout.strip()
        enter = ENTER.replace("RAY_AUTH_MODE=token", f"RAY_AUTH_TOKEN={token}")
        joining.run(f"{enter}sweeper worker --address {provider['head_ip']}:6379 --background")
        left = len(expected) - len(list(out.glob("*/data/part-*")))
        found(bool(begun) and left > 10, f"{left} parts were left then")
        said, _ = job.communicate(timeout=900.0)
        found(job.returncode == 0, "the run ended" if job.returncode == 0 else said[-2000:])
        found(evaluated(out) == expected, "all parts and the manifest are those of the undisturbed run")
        hosts = {name for name in ("joining", *names.values()) if f'"host":"{name}"' in receipts(out)}
        found("joining" in hosts, f"parts by {', '.join(sorted(hosts))}")
    tunnel.kill()
    with report.step("ray down") as found:
        operator.run(f"{ENTER}ray down -y ray_cluster.yaml")
        until(lambda: not of_ray(), DOWN_S)
        found(not of_ray(), "no process of Ray is left" if not of_ray() else f"left: {of_ray()}")
    with report.step("sweeper worker") as found:
        address, out = f"{workers[0].address}:7000", site.shared / "joined"
        workers[0].run(f"{ENTER}sweeper worker --address {address} --background")
        other = subprocess.Popen(workers[1].command(f"{ENTER}sweeper worker --address {address}"))
        again = workers[0].run(f"{ENTER}sweeper worker --address {address}")
        found("already" in again.stdout, "the head is told that it is it")
        workers[0].run(f"{ENTER}sweeper run {small} -q --address {address} --workers {2 * each:g} --out {out}")
        found(evaluated(out) == evaluated(site.shared / "small"), "two hosts give the same bytes")
        workers[0].run(f"{ENTER}ray stop")
        found(other.wait(DOWN_S) == 0, "the other one ends with the head")
        until(lambda: not of_ray(), DOWN_S)
        found(not of_ray(), "no process of Ray is left" if not of_ray() else f"left: {of_ray()}")
    return report.failed


def receipts(out: Path) -> str:
    """What was written about who computed what."""
    return "".join(path.read_text().replace(": ", ":") for path in out.glob("*/receipts/*"))


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
