-- The board: each airport's hours with traffic and weather side by side, and where the airport stands in the day.
-- Flights reach it on two ways (through departures_by_hour and flights_weather); it is right when both are as fresh.
WITH sky AS (
  SELECT
    origin,
    time_hour,
    max(conditions) AS conditions,
    max(gust) AS gust,
    min(visib) AS visib
  FROM flights_weather
  GROUP BY origin, time_hour
)
SELECT
  d.origin,
  d.time_hour,
  d.local_date,
  d.local_hour,
  d.planned,
  d.cancelled,
  d.hour_late,
  d.mean_dep_delay,
  sky.conditions,
  sky.gust,
  sky.visib,
  sum(d.cancelled) OVER (PARTITION BY d.origin, d.local_date ORDER BY d.time_hour) AS cancelled_so_far
FROM departures_by_hour AS d
LEFT JOIN sky ON sky.origin = d.origin AND sky.time_hour = d.time_hour
