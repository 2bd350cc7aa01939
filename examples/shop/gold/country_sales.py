"""Sales by the country where the customer lives now."""

from pyspark.sql import functions as F

import lakesmith as lake


@lake.gold(
    load=lake.replace(),
    description="Sales by the country where the customer lives now.",
    checks=[lake.check("every_country_named", where="country IS NOT NULL", on_fail="warn")],
    tags=["sales"],
)
def country_sales(orders=lake.ref("silver.orders"), customers=lake.ref("silver.customers")):
    return (
        orders.where("status <> 'cancelled'")
        .join(customers, "customer_id", "left")
        .groupBy("country", "currency")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("sales"))
    )
