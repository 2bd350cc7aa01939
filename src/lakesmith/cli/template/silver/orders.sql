/* lakesmith
description: One row an order, the latest version of it.
load: {merge: {key: order_id, order_by: updated_at}}
columns:
  order_id: {type: bigint, required: true}
  email: {type: string, tags: [pii]}
  amount: {type: "decimal(12,2)", check: "amount >= 0"}
checks:
  known_currency: {where: "currency in ('EUR', 'USD')", on_fail: quarantine}
  enough_rows: {expect: "count(*) > 0", on_fail: fail}
*/
SELECT
  order_id,
  email,
  amount,
  currency,
  updated_at,
  CAST(updated_at AS DATE) AS day
FROM bronze.orders
