"""What is said when Airflow's API goes away."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from scheduler_plugin.live.dispatch import Airflow, UnreachableError
from scheduler_plugin.services.settings import Settings


class _DiesAfterTheLogin(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(b'{"access_token": "a"}')
        self.server.shutdown_request(self.request)
        self.server.socket.close()

    def log_message(self, *words: object) -> None:
        """Nothing: the test's output is for the test."""


def test_an_api_that_dies_between_two_requests_is_said_to_be_unreachable(tmp_path):
    server = HTTPServer(("127.0.0.1", 0), _DiesAfterTheLogin)
    threading.Thread(target=server.handle_request, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    airflow = Airflow(
        Settings.load({"FRESHET_HOME": str(tmp_path), "FRESHET_API_URL": address, "FRESHET_API_PASSWORD": "p"})
    )
    with pytest.raises(UnreachableError, match=f"Airflow's API at {address} cannot be reached"):
        airflow.paused()
    airflow.close()
