-- One row a flight, with instants instead of local clock readings. Local times are hhmm and write midnight as 2400, so
-- the instants come from the scheduled hour in UTC and the delay; nothing here depends on the session's time zone.
SELECT
  time_hour,
  time_hour + make_dt_interval(0, 0, minute, 0) AS scheduled_at,
  -- NULL for a cancelled flight, as the delay is.
  time_hour + make_dt_interval(0, 0, minute + dep_delay, 0) AS departed_at,
  make_date(year, month, day) AS local_date,
  hour AS local_hour,
  -- Minutes after local midnight: 2400 is 0, not 1440.
  (dep_time DIV 100 % 24) * 60 + dep_time % 100 AS dep_minute,
  carrier,
  flight,
  tailnum,
  origin,
  dest,
  distance,
  air_time,
  dep_delay,
  arr_delay,
  dep_time IS NULL AS cancelled,
  -- It left, but no arrival at its destination is known.
  dep_time IS NOT NULL AND arr_delay IS NULL AS diverted
FROM flights
