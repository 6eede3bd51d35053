"""What runs on Spark, and the tables it writes. Knows nothing of Airflow."""
