"""HTTP: routes are thin, every answer and every error has its documented shape."""
