-- Virtual: the routes to avoid, asked for now and then, cheap to work out when they are.
SELECT origin, dest, destination, flights, cancelled, mean_arr_delay
FROM delays_by_route
WHERE flights >= 10
ORDER BY mean_arr_delay DESC NULLS LAST, origin, dest
LIMIT 20
