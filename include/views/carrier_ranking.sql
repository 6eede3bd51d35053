-- Airlines from most to least reliable, by the share of planned flights that arrived within 15 minutes of the plan.
SELECT
  rank() OVER (ORDER BY try_divide(arrived_on_time, flights) DESC) AS place,
  carrier,
  airline,
  flights,
  round(100.0D * try_divide(arrived_on_time, flights), 1) AS on_time_percent,
  round(100.0D * try_divide(cancelled, flights), 1) AS cancelled_percent
FROM delays_by_carrier
