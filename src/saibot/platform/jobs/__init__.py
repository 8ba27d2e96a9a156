"""Searches in processes of their own: a queue, workers that are watched, and what happens when one dies."""
