-- Weather by airport and hour. The local hour repeats when clocks go back, so the hour in UTC is the key. No gust
-- reported means none above the wind; NULL stays where nothing was measured.
SELECT
  origin,
  time_hour,
  temp,
  wind_speed,
  coalesce(wind_gust, wind_speed) AS gust,
  precip,
  visib,
  CASE
    WHEN visib < 1 THEN 'blind'
    WHEN visib < 3 OR precip >= 0.1 THEN 'poor'
    WHEN coalesce(wind_gust, wind_speed) >= 30 THEN 'windy'
    ELSE 'fair'
  END AS conditions
FROM weather
