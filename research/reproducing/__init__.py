"""From a figure's name to its numbers, drawing and checks: what all figures share."""
