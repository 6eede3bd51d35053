-- What each airport planned and managed, by scheduled hour in UTC.
SELECT
  origin,
  time_hour,
  min(local_date) AS local_date,
  min(local_hour) AS local_hour,
  count(*) AS planned,
  count_if(cancelled) AS cancelled,
  count_if(dep_delay > 60) AS hour_late,
  avg(dep_delay) AS mean_dep_delay
FROM flights_clean
GROUP BY origin, time_hour
