"""Import what a job needs, once, in a process that will fork jobs.

Importing takes about four seconds, a job one. Modules only: no connection, channel or thread may be open before a fork.
"""


def warm_imports() -> None:
    """Load every module that a load or a refresh uses."""
    import pandas
    import pyspark.sql.connect.session  # noqa: F401

    from spark_jobs import gate, load, refresh, tables  # noqa: F401

    # Expectations and their metrics register themselves, and pandas compiles its first frame.
    expectation = {"expect": "expect_column_values_to_not_be_null", "on_fail": "warn", "arguments": {"column": "a"}}
    gate.judge(pandas.DataFrame({"a": [1], gate.ROW: [0]}), [expectation], on_spark=False)
