"""What several test modules need: plans, charges, releases, forged files, simulated noise, processes, commands, servers."""
