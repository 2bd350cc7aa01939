"""Records of Lakesmith: pinned batches, leases, and the system tables with runs, steps and checks."""
