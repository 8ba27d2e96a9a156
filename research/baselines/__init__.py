"""What Saibot is compared with. Noise is seeded numpy, for simulation only: nothing here may be released.

`nonprivate` no noise at all; `tpm` noise on every row (local model); `apm` noise on the augmented aggregate (a trusted
platform, budget split over all it might answer); `sf1`, `sf2` noise on every row with a budget amplified by shuffling. The
mechanisms of the paper and of this system come from `saibot.privacy.mechanisms`.
"""

from research.baselines.noise import EntryNoise
from research.baselines.per_tuple import PerTuple, RandomisedKey

__all__ = ["EntryNoise", "PerTuple", "RandomisedKey"]
