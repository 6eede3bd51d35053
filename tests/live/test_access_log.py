"""Reads found in a log of queries."""

from scheduler_plugin.live.access_log import reads_of


def test_sql_and_json_lines_are_counted_and_the_rest_is_passed_over() -> None:
    lines = [
        "SELECT * FROM board JOIN flights USING (id)\n",
        '{"sql": "SELECT 1 FROM board", "count": 3, "user": "ana"}\n',
        '{"statement": "WITH x AS (SELECT * FROM flights) SELECT * FROM x"}\n',
        "\n",
        "SELECT * FROM elsewhere\n",
        "DROP TABLE board\n",
        "{not json\n",
        '{"count": 2}\n',
        "gibberish ((\n",
    ]
    counted, passed_over = reads_of(lines, {"board", "flights"})
    assert counted == {"board": 4, "flights": 2}
    assert passed_over == 5
