/* lakesmith
description: What was sold each day, by currency.
load: {replace_partitions: day}
columns:
  day:   {type: date, required: true}
  sales: {type: "decimal(22,2)", check: "sales >= 0"}
checks:
  no_empty_day: {where: "orders > 0", on_fail: fail}
tags: [sales]
*/
SELECT day, currency, count(*) AS orders, sum(amount) AS sales
FROM silver.orders
WHERE status <> 'cancelled'
GROUP BY day, currency
