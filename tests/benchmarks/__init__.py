"""What a load costs, as ratios inside one run: `make bench`."""
