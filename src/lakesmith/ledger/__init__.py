"""What Lakesmith knows of itself: pinned batches, and the system tables with runs, steps and checks."""
