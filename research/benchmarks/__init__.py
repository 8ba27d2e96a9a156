"""Speed side by side with what users would do instead: ratios from one run, for machines are shared and noisy."""
