-- Each flight with the weather at its airport in its scheduled hour. Weather has gaps: such flights stay, as 'unknown'.
SELECT
  f.time_hour,
  f.carrier,
  f.flight,
  f.origin,
  f.dest,
  f.cancelled,
  f.dep_delay,
  w.wind_speed,
  w.gust,
  w.precip,
  w.visib,
  coalesce(w.conditions, 'unknown') AS conditions
FROM flights_clean AS f
LEFT JOIN weather_clean AS w ON w.origin = f.origin AND w.time_hour = f.time_hour
