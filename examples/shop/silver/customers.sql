/* lakesmith
description: Each customer once, at the address where they live now.
load: {merge: {key: customer_id, order_by: changed_at}}
columns:
  customer_id: {type: bigint, required: true}
  email:       {type: string, tags: [pii], check: "email LIKE '%@%'"}
  country:     {type: string, required: true}
  changed_at:  {type: timestamp, required: true}
*/
SELECT customer_id, name, lower(email) AS email, upper(country) AS country, changed_at
FROM bronze.customers
