"""What a guarantee is: budgets, neighbours, sensitivities, calibration, composition, the ledger and the mechanisms' plans.

Nothing here reads a row. A plan is decided, printed and charged before any data is touched.
"""

from saibot.privacy.budget import Budget
from saibot.privacy.events import ChoiceEvent, Event, GaussianEvent, KeysEvent, PureEvent, Spent
from saibot.privacy.neighbours import Neighbours

__all__ = ["Budget", "ChoiceEvent", "Event", "GaussianEvent", "KeysEvent", "Neighbours", "PureEvent", "Spent"]
