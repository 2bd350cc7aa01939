"""What Lakesmith costs, as ratios within one run: `make bench`. Nothing here is a test; times depend on the machine."""
