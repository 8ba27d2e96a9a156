"""Long attacks and faults, in pieces that can be stopped and taken up again. Quick forms of them are ordinary tests."""
