"""An S3 server on loopback that counts requests and turns some away."""

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import obstore
from moto.backends import get_backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "bucket"
BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'


@dataclass
class Server:
    """`requests` are (method, path, query) of all that came; a `busy` share of them is turned away."""

    address: str = ""
    busy: float = 0.0
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def uri(self, prefix: str = "results") -> str:
        """Address of a prefix, as a user gives it."""
        return f"s3://{BUCKET}/{prefix}?endpoint_override={self.address}&scheme=http&region=eu-west-1"

    def uploads(self) -> list[Any]:
        """Multipart uploads that were begun and neither ended nor given up."""
        return list(get_backend("s3")["123456789012"]["aws"].buckets[BUCKET].multiparts.values())

    def counting(self, application: Any) -> Callable[..., Iterable[bytes]]:
        """An application that counts requests."""

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]))
            if self.draw.random() < self.busy:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start_response("503 Slow Down", [("Content-Type", "application/xml")])
                return [BUSY]
            answered: Iterable[bytes] = application(environ, start_response)
            return answered

        return answer


@contextmanager
def s3_server() -> Iterator[Server]:
    """A server with an empty bucket; the environment has to have credentials."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = Server()
    application = server.counting(DomainDispatcherApplication(create_backend_app))
    served = make_server("127.0.0.1", 0, application, threaded=True)
    server.address = f"127.0.0.1:{served.server_port}"
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    try:
        get_backend("s3")["123456789012"]["aws"].create_bucket(BUCKET, "eu-west-1")
        yield server
    finally:
        served.shutdown()
        thread.join()
        get_backend("s3").reset()


def listed(address: str) -> list[str]:
    """Keys below an address."""
    from sweeper.running.storage.objects import ObjectFolder

    return sorted(entry["path"] for entry in obstore.list(ObjectFolder(address).store).collect())
