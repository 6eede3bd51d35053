"""Airflow's services are told from strangers' on the same machine."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scheduler_plugin.services import airflow, process
from scheduler_plugin.services.settings import Settings

HEALTHY = b'{"metadatabase": {"status": "healthy"}}'


class Stranger(BaseHTTPRequestHandler):
    """An api-server of somebody else's that is well."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(HEALTHY)))
        self.end_headers()
        self.wfile.write(HEALTHY)

    def log_message(self, format: str, *words: object) -> None:
        pass


def test_a_stranger_who_came_to_the_port_first_does_not_count_as_our_api_server(own_settings: Settings) -> None:
    own_settings.home.make()
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        port = stranger.server_address[1]
        record = process.start(own_settings.home, airflow.API_SERVER, sleep, environment=dict(os.environ), port=port)
        try:
            assert not airflow.is_healthy(airflow.API_SERVER, record, airflow.health(own_settings))
        finally:
            process.stop(record)
            stranger.shutdown()
