-- How each route does. Four destinations in Puerto Rico and the Virgin Islands are not in the airports' list.
SELECT
  f.origin,
  f.dest,
  coalesce(max(a.name), f.dest) AS destination,
  max(f.distance) AS miles,
  count(*) AS flights,
  count_if(f.cancelled) AS cancelled,
  count_if(f.diverted) AS diverted,
  avg(f.dep_delay) AS mean_dep_delay,
  avg(f.arr_delay) AS mean_arr_delay
FROM flights_clean AS f
LEFT JOIN airports AS a ON a.faa = f.dest
GROUP BY f.origin, f.dest
