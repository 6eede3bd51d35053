-- Delay by make and age of plane. One flight in six has a plane the register does not know, or none: they are 'unknown'.
SELECT
  coalesce(p.manufacturer, 'unknown') AS manufacturer,
  CASE
    WHEN p.age_years IS NULL THEN 'unknown'
    WHEN p.age_years < 5 THEN 'under 5'
    WHEN p.age_years < 15 THEN '5 to 14'
    ELSE '15 and more'
  END AS age,
  count(*) AS flights,
  count(DISTINCT f.tailnum) AS planes,
  count_if(f.cancelled) AS cancelled,
  avg(f.dep_delay) AS mean_dep_delay,
  sum(CASE WHEN NOT f.cancelled THEN p.seats END) AS seats_flown
FROM flights_clean AS f
LEFT JOIN fleet AS p ON p.tailnum = f.tailnum
GROUP BY 1, 2
