-- One row a day: the whole network at a glance.
SELECT
  b.local_date,
  sum(b.planned) AS planned,
  sum(b.cancelled) AS cancelled,
  sum(b.hour_late) AS hour_late,
  max(b.gust) AS strongest_gust,
  min(b.visib) AS worst_visibility,
  max_by(b.origin, struct(b.cancelled_so_far, b.origin)) AS hardest_hit,
  max(r.airline) AS most_reliable_airline
FROM airport_board AS b
CROSS JOIN (SELECT min(airline) AS airline FROM carrier_ranking WHERE place = 1) AS r
GROUP BY b.local_date
