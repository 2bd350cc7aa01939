"""Everything that moves rows with Spark: reads sources, runs queries, checks rows and writes tables."""
