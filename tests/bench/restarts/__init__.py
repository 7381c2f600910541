"""What a restart costs and gives, on the test cluster: `make bench-restarts`."""
