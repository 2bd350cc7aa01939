/* lakesmith
description: Each order once, as it stands now.
load: {merge: {key: order_id, order_by: updated_at}}
columns:
  order_id:   {type: bigint, required: true}
  customer_id: {type: bigint, required: true}
  amount:     {type: "decimal(12,2)", check: "amount >= 0"}
  currency:   {type: string, required: true}
  day:        {type: date, required: true}
  updated_at: {type: timestamp, required: true}
checks:
  known_currency: {where: "currency IN ('EUR', 'USD')", on_fail: quarantine}
  some_orders:    {expect: "count(*) > 0", on_fail: fail}
tags: [sales]
*/
SELECT
  order_id,
  customer_id,
  amount,
  upper(currency) AS currency,
  status,
  to_date(ordered_at) AS day,
  to_timestamp(updated_at) AS updated_at
FROM bronze.orders
