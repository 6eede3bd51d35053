-- How each airline does. A cancelled flight has no delay: averages are over flights that left.
SELECT
  f.carrier,
  coalesce(max(a.name), f.carrier) AS airline,
  count(*) AS flights,
  count_if(f.cancelled) AS cancelled,
  avg(f.dep_delay) AS mean_dep_delay,
  percentile_approx(f.dep_delay, 0.9) AS p90_dep_delay,
  avg(f.arr_delay) AS mean_arr_delay,
  count_if(f.arr_delay <= 15) AS arrived_on_time
FROM flights_clean AS f
LEFT JOIN airlines AS a ON a.carrier = f.carrier
GROUP BY f.carrier
