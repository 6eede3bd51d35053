"""SQL from people: what is refused, and that what is allowed keeps its meaning."""

import pytest

from scheduler_plugin.catalog.confined import ConfinedError, confined

KNOWN = {"t", "u", "v"}

HOSTILE = [
    # other statements, and several
    "DROP TABLE t",
    "SELECT 1 FROM t; DROP TABLE t",
    "INSERT INTO t SELECT * FROM u",
    "CREATE TABLE x AS SELECT * FROM t",
    "CREATE TEMPORARY VIEW t AS SELECT 1",
    "DELETE FROM t",
    "UPDATE t SET a = 1",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE t",
    "ALTER TABLE t RENAME TO x",
    "SET spark.sql.variable.substitute = true",
    "RESET",
    "ADD JAR '/tmp/evil.jar'",
    "ADD FILE '/etc/passwd'",
    "LIST JARS",
    "CACHE TABLE t",
    "REFRESH TABLE t",
    "USE other",
    "DESCRIBE t",
    "SHOW TABLES",
    "EXPLAIN SELECT * FROM t",
    "EXECUTE IMMEDIATE 'DROP TABLE t'",
    "LOAD DATA INPATH '/x' INTO TABLE t",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM t",
    "FROM t INSERT INTO u SELECT *",
    "CALL system.rollback('t')",
    "DECLARE x INT DEFAULT 1",
    "BEGIN SELECT 1 FROM t; END",
    "SELECT a INTO x FROM t",
    "VALUES (1)",
    "TABLE t",
    "!ls",
    "",
    "   ",
    "-- nothing",
    # files and other places
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM t JOIN csv.`/etc/passwd` AS x ON true",
    "SELECT * FROM text.`file:///etc/passwd`",
    "SELECT * FROM `parquet`.`/etc`",
    "SELECT * FROM delta.`/x`",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`) AS x FROM t",
    "SELECT a FROM t WHERE a IN (SELECT value FROM text.`/etc/passwd`)",
    "WITH t AS (SELECT * FROM json.`/x`) SELECT * FROM t",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM t, LATERAL read_files('/x')",
    "SELECT * FROM cloud_files('/x')",
    "SELECT * FROM range(10)",
    "SELECT * FROM sql_keywords()",
    "SELECT * FROM stream(t)",
    "SELECT * FROM IDENTIFIER('parquet.`/x`')",
    "SELECT * FROM IDENTIFIER('t')",
    "SELECT * FROM spark_catalog.default.t",
    "SELECT * FROM global_temp.t",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM freshet.decision",
    "SELECT * FROM other",
    "SELECT 1",
    # functions that reach outside or tell of the server
    "SELECT java_method('java.lang.System', 'getenv', 'PATH') FROM t",
    "SELECT reflect('java.lang.Runtime', 'exec', 'id') FROM t",
    "SELECT try_reflect('java.lang.System', 'getenv', 'PATH') FROM t",
    "SELECT JAVA_METHOD ('java.lang.System', 'getenv') FROM t",
    "SELECT `reflect`('java.lang.System', 'getenv') FROM t",
    "SELECT a FROM t ORDER BY reflect('java.lang.System', 'getenv', a)",
    "SELECT a FROM t WHERE reflect('java.lang.System', 'exit', 0) IS NULL",
    "SELECT sum(a) OVER (PARTITION BY reflect('x', 'y')) FROM t",
    "SELECT input_file_name() FROM t",
    "SELECT input_file_block_start() FROM t",
    "SELECT _metadata.file_path FROM t",
    "SELECT t._metadata FROM t",
    "SELECT current_user() FROM t",
    "SELECT current_catalog() FROM t",
    "SELECT session_user() FROM t",
    "SELECT version() FROM t",
    "SELECT spark_partition_id() FROM t",
    "SELECT my_udf(a) FROM t",
    "SELECT ai_query('m', a) FROM t",
    "SELECT http_request('x') FROM t",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv') FROM t",
    "SELECT TRANSFORM (a) USING 'cat /etc/passwd' AS (b) FROM t",
    "FROM t SELECT TRANSFORM (a) USING 'sh' AS b",
    "SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv')) FROM t",
    "SELECT a FROM t DISTRIBUTE BY reflect('java.lang.System', 'getenv')",
    "SELECT a FROM t WINDOW w AS (ORDER BY java_method('a', 'b'))",
    "SELECT * FROM t LATERAL VIEW java_method('a', 'b') x",
    "SELECT a FROM t UNION SELECT (SELECT reflect('a', 'b')) FROM t",
    "SELECT a FROM t |> WHERE reflect('a', 'b') IS NULL",
    "SELECT from_protobuf(a, 'm', '/etc/passwd') FROM t",
    "SELECT from_avro(a, 'x') FROM t",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM collations()",
    "SELECT raise_error(a) FROM t",
    "SELECT sleep(10) FROM t",
    "SELECT current_database() FROM t",
    "SELECT user() FROM t",
    # one value that fills the memory
    "SELECT repeat('x', 1000000000) FROM t",
    "SELECT repeat('x', a) FROM t",
    "SELECT space(1000000000) FROM t",
    "SELECT lpad('x', 1000000000, 'y') FROM t",
    "SELECT rpad(a, b) FROM t",
    "SELECT array_repeat(1, 1000000000) FROM t",
    "SELECT randstr(1000000000) FROM t",
    "SELECT format_string('%1000000000d', 1) FROM t",
    "SELECT printf(a, 1) FROM t",
    "SELECT x FROM t LATERAL VIEW explode(sequence(1, 1000000000)) e AS x",
    "SELECT sequence(1, a) FROM t",
    "SELECT sequence(-1000000000, 1) FROM t",
    "SELECT sequence(w, current_timestamp(), interval 1 microsecond) FROM t",
    "SELECT /*+ REPARTITION(1000000) */ * FROM t",
    # names that look like others
    "SELECT * FROM \uff54",
    "SELECT * FROM t JOIN `t\u200b`",
    # variables of the server
    "SELECT '\\u0024{env:PATH}' FROM t",
    "SELECT '${env:PATH}' AS p FROM t",
    "SELECT ${system:user.home} FROM t",
    "SELECT a AS `${spark.app.id}` FROM t",
    "SELECT * FROM t WHERE a = :x",
    "SELECT @@version FROM t",
    # time travel inside the text
    "SELECT * FROM t VERSION AS OF 3",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-01'",
    # understood in more than one way
    "SELECT listagg(a) FROM t",
    # broken or too much
    "SELECT * FROM t WHERE 'open",
    "SELECT /* open FROM t",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM t",
    "SELECT a FROM t -- " + "x" * 200_000,
]

HARMLESS = [
    "SELECT * FROM t",
    "select a, count(*) from T group by a having count(*) > 1 order by 2 desc limit 5",
    "WITH x AS (SELECT * FROM t) SELECT x.a, u.b FROM x LEFT JOIN u USING (a)",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY c) AS n FROM t",
    "SELECT a FROM t UNION ALL SELECT a FROM u",
    "SELECT percentile_approx(a, 0.5) AS m, make_date(2020, 1, 2) AS d, current_date() AS today FROM t",
    "SELECT x FROM t LATERAL VIEW explode(array(1, 2)) e AS x",
    "SELECT a FROM t WHERE b LIKE '%;drop table t;%' -- a remark",
    "SELECT a FROM v WHERE EXISTS (SELECT 1 FROM u WHERE u.a = v.a);",
    "SELECT lpad(a, 8, '0') AS n, format_string('%05d', a) AS f, repeat('-', 20) AS r FROM t",
    "SELECT d FROM t LATERAL VIEW explode(sequence(w, current_date(), interval 1 day)) s AS d",
    "SELECT n FROM t LATERAL VIEW explode(sequence(1, 24)) s AS n",
    "SELECT CAST(a AS decimal(10,2)) AS d, date_trunc('hour', w) AS h, a IS DISTINCT FROM b AS x FROM t",
]


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: sql[:60])
def test_a_hostile_statement_is_refused_with_a_reason(sql: str) -> None:
    with pytest.raises(ConfinedError) as refusal:
        confined(sql, KNOWN)
    assert str(refusal.value)


@pytest.mark.parametrize("sql", HARMLESS)
def test_a_question_about_the_catalog_is_allowed_and_understood_again(sql: str) -> None:
    allowed = confined(sql, KNOWN)
    assert set(allowed.objects) <= KNOWN
    # What is run reads the same as what was given.
    assert confined(allowed.sql, KNOWN) == allowed
