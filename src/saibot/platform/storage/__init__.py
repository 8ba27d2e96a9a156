"""Where the platform keeps what it knows: tables in a database, sketches as files named by their digest."""
