"""Attacks on the release. An audit that finds nothing proves nothing; one that finds something disproves the claim."""
