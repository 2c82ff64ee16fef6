"""Hosts on one machine: each has network, processes, temporary files and home of its own, and is reached by ssh.

All of them live in namespaces, below one that `python -m tests.cluster` makes: with that they are gone.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

USER = "sweeper"
BRIDGE, BRIDGE_ADDRESS = "hosts", "192.0.2.254"
START_S = 20.0
NEEDED = ("ip", "unshare", "mount", "ssh", "ssh-keygen", "/usr/sbin/sshd", "rsync", "git", "make")
"""Programs without which no host can be made, or none be used."""

START = """
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
hostname {name}
ip link set lo up
{home}
/usr/sbin/sshd -f {work}/sshd_config
while :; do sleep 3600 & wait; done
"""
"""What the first process of a host does, which also waits for those whose parent is gone."""

OVERLAY = """
mkdir {work}/{name}
mount -t tmpfs tmpfs {work}/{name}
mkdir {work}/{name}/changed {work}/{name}/work
mount -t overlay -o lowerdir={work}/image,upperdir={work}/{name}/changed,workdir={work}/{name}/work overlay {home}
"""
"""A home of its own that begins as the image."""

SSHD = """
HostKey {work}/host_key
AuthorizedKeysFile {work}/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
SetEnv PATH={path}
Subsystem sftp internal-sftp
"""
"""The user has the number 0, since Python may lie where only root can read, and comes before root in the list of
users: programs that look up the home of number 0 find the right one."""


def lacking() -> str:
    """Why no hosts can be made here; empty if they can."""
    if os.geteuid() != 0:
        return "only root can make network, mount and process namespaces"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Site:
    """Where the files of all hosts are: `image` is what a home begins as, `home` where each host sees its own."""

    work: Path

    @property
    def image(self) -> Path:
        return self.work / "image"

    @property
    def home(self) -> Path:
        return self.work / "home"

    @property
    def key(self) -> Path:
        return self.work / "key"

    @property
    def shared(self) -> Path:
        """A directory that every host sees under the same path, as that of a network file system."""
        return self.work / "shared"

    def prepare(self, names: Mapping[str, str]) -> None:
        """The network, and a user that exists in these namespaces only; `names` of hosts by their addresses."""
        for folder in (self.image, self.home, self.shared, self.work / "etc"):
            folder.mkdir()
        for name in ("key", "host_key"):
            _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.work / name))
        (self.work / "sshd_config").write_text(SSHD.format(work=self.work, path=os.environ["PATH"]))
        self._laid_over("passwd", f"{USER}:x:0:0::{self.home}:/bin/bash\n")
        self._laid_over("shadow", f"{USER}:*:19000::::::\n")
        self._laid_over("hosts", "".join(f"{address} {name}\n" for address, name in names.items()))
        _call("mount", "-t", "tmpfs", "tmpfs", "/run")
        _call("ip", "link", "set", "lo", "up")
        _call("ip", "link", "add", BRIDGE, "type", "bridge")
        _call("ip", "address", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
        _call("ip", "link", "set", BRIDGE, "up")

    def _laid_over(self, name: str, lines: str) -> None:
        """One of the system's files with further lines in front, in these namespaces only."""
        there, ours = Path("/etc", name), self.work / "etc" / name
        ours.write_text(lines + there.read_text())
        _call("mount", "--bind", str(ours), str(there))


class Host:
    """A host, which starts when it is made. `bare`: its home is the image itself, not a copy."""

    def __init__(self, site: Site, name: str, address: str, bare: bool = False) -> None:
        self.name, self.address, self._site = name, address, site
        home = "mount --bind {work}/image {home}" if bare else OVERLAY
        script = START.format(name=name, work=site.work, home=home.format(work=site.work, name=name, home=site.home))
        _call("ip", "netns", "add", name)
        _call("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _call("ip", "link", "set", f"to-{name}", "master", BRIDGE, "up")
        _call("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        _call("ip", "-n", name, "link", "set", "eth0", "up")
        own = ["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(["ip", "netns", "exec", name, "unshare", *own, "bash", "-ec", script])
        end = time.monotonic() + START_S
        while self.run("true", check=False).returncode != 0:
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"host {name} does not answer")
            time.sleep(0.2)

    def command(self, line: str) -> list[str]:
        """What runs a shell's line on this host."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=5"]
        flags = [word for option in options for word in ("-o", option)]
        return ["ssh", "-i", str(self._site.key), *flags, f"{USER}@{self.address}", f"bash -c {shlex.quote(line)}"]

    def run(self, line: str, check: bool = True, seconds: float = 600.0) -> "subprocess.CompletedProcess[str]":
        """Run a shell's line; RuntimeError with what it said if it fails, unless that is not to be checked."""
        done = subprocess.run(self.command(line), capture_output=True, text=True, timeout=seconds, check=False)
        if check and done.returncode != 0:
            said = (done.stdout + done.stderr)[-3000:]
            raise RuntimeError(f"on {self.name}: {line}\nexit code {done.returncode}\n{said}")
        return done

    def cut(self) -> None:
        """Take its power: its processes and its network are gone at once."""
        self._process.kill()
        self._process.wait()
        _call("ip", "netns", "delete", self.name)


def _call(*command: str) -> None:
    subprocess.run(command, check=True)
