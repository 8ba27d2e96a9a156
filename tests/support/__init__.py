"""What several test modules build: plans, charges, releases, forged files, noise that is none."""
