/* lakesmith
description: What was sold on each day.
load: {replace_partitions: day}
*/
SELECT
  day,
  currency,
  count(*) AS orders,
  sum(amount) AS revenue
FROM silver.orders
GROUP BY day, currency
