"""The story on real flights: every departure from New York City in 2013, one airline as a provider."""
