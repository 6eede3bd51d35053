-- What weather does to departures.
SELECT
  origin,
  conditions,
  count(*) AS flights,
  count_if(cancelled) AS cancelled,
  try_divide(100.0D * count_if(cancelled), count(*)) AS cancelled_percent,
  avg(dep_delay) AS mean_dep_delay,
  avg(gust) AS mean_gust
FROM flights_weather
GROUP BY origin, conditions
