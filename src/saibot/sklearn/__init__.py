"""Private data search as a step of a scikit-learn pipeline.

    search = PrivateAugmenter("corpus", key="ward")           # or the address of a platform
    make_pipeline(search, HistGradientBoostingRegressor()).fit(bills, cost)
    cross_val_score(PrivateRegressor(search), bills, cost, cv=GroupKFold(), groups=bills.ward)  # on wards it has not seen

`fit` searches at home with the exact rows, so nothing of them leaves; `transform` joins the chosen private columns.
"""

try:
    import sklearn as _installed  # noqa: F401
except ImportError:
    from saibot.errors import SaibotError
    from saibot.extras import how_to_install

    raise SaibotError("saibot.sklearn needs scikit-learn.", hint=how_to_install("sklearn")) from None

from saibot.sklearn.augmenter import PrivateAugmenter
from saibot.sklearn.regressor import PrivateRegressor

__all__ = ["PrivateAugmenter", "PrivateRegressor"]
