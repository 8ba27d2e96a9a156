"""One module for each page: read what was asked, call the platform's verbs, fill the template."""
