"""The embedded Postgres comes up whatever state it was left in, and never on somebody else's data or port."""

import os
import signal
import socket
import time
from contextlib import closing

import psutil
import pytest

from scheduler_plugin.services import ServiceError, postgres, process
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings

pytestmark = pytest.mark.services


def start(settings: Settings) -> Record:
    settings.home.make()
    record = postgres.start(settings.home)
    while not postgres.ready(settings.database_url):
        assert record.alive, process.log_tail(settings.home, postgres.SERVICE)
        time.sleep(0.1)
    return record


def write_row(settings: Settings) -> None:
    postgres.make_database(settings.database_url)
    with closing(postgres.connect(settings.database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def row(settings: Settings) -> int:
    with closing(postgres.connect(settings.database_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT answer FROM kept")
        return int(cursor.fetchone()[0])


def kill(record: Record) -> None:
    """What a power failure does: nobody gets to tidy up."""
    process.end(process.family(record), first=signal.SIGKILL)


def test_data_outlives_a_crash_even_when_the_pid_file_names_a_living_stranger(own_settings: Settings) -> None:
    record = start(own_settings)
    write_row(own_settings)
    kill(record)
    pid_file = own_settings.home.postgres / "data" / "postmaster.pid"
    _, _, rest = pid_file.read_text().partition("\n")
    pid_file.write_text(f"{os.getpid()}\n{rest}")
    again = start(own_settings)
    assert again.pid != record.pid
    assert row(own_settings) == 42


def test_a_database_interrupted_in_the_making_is_made_again(own_settings: Settings) -> None:
    own_settings.home.make()
    making = own_settings.home.postgres / "making"
    postgres.Owner.choose().own(own_settings.home.postgres)
    making.mkdir()
    (making / "PG_VERSION").write_text("18\n")
    start(own_settings)
    write_row(own_settings)
    assert row(own_settings) == 42


def test_what_is_no_whole_database_is_kept_under_another_name(own_settings: Settings) -> None:
    own_settings.home.make()
    data = own_settings.home.postgres / "data"
    postgres.Owner.choose().own(own_settings.home.postgres)
    data.mkdir()
    (data / "somebody's file").write_text("precious")
    start(own_settings)
    [kept] = own_settings.home.postgres.glob("data.broken-*")
    assert (kept / "somebody's file").read_text() == "precious"


def test_a_taken_port_is_passed_over(own_settings: Settings) -> None:
    first = start(own_settings)
    postgres.stop(first)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", first.port))
        stranger.listen()
        assert start(own_settings).port != first.port


def test_a_running_server_whose_record_is_lost_is_taken_over(own_settings: Settings) -> None:
    record = start(own_settings)
    Record.path(own_settings.home, postgres.SERVICE).unlink()
    again = start(own_settings)
    assert (again.pid, again.port) == (record.pid, record.port)


def test_lost_secrets_are_told_and_not_waited_for(own_settings: Settings) -> None:
    start(own_settings)
    (own_settings.home.root / "secrets.json").unlink()
    with pytest.raises(ServiceError, match=r"secrets\.json"):
        postgres.ready(own_settings.database_url)


def test_a_home_that_postgres_cannot_enter_is_served_from_elsewhere(own_settings: Settings) -> None:
    own_settings.home.root.chmod(0o700)
    start(own_settings)
    write_row(own_settings)
    assert row(own_settings) == 42
    # Only root runs Postgres as another user; everybody else can enter a home of their own.
    assert own_settings.home.postgres.is_symlink() == (os.geteuid() == 0)


def test_it_listens_on_loopback_alone(own_settings: Settings) -> None:
    record = start(own_settings)
    listening = [item for item in psutil.Process(record.pid).net_connections() if item.status == psutil.CONN_LISTEN]
    assert {item.laddr.ip for item in listening} == {"127.0.0.1"}
