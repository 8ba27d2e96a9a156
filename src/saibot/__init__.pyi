# What `saibot.__getattr__` loads when it is first used, for type checkers and editors.
from saibot.client import Augmented as Augmented
from saibot.client import Corpus as Corpus
from saibot.client import Platform as Platform
from saibot.client import Provider as Provider
from saibot.client import Requester as Requester
from saibot.client import SearchOptions as SearchOptions
from saibot.client import connect as connect
from saibot.client import find_augmentation as find_augmentation
from saibot.client import local_request as local_request
from saibot.client import pack_sketches as pack_sketches
from saibot.client import synthesize as synthesize
from saibot.errors import SaibotError as SaibotError
from saibot.privatize import Card as Card
from saibot.sketch import Sketch as Sketch
from saibot.sketch import read_sketch as read_sketch
from saibot.sklearn import PrivateAugmenter as PrivateAugmenter
from saibot.sklearn import PrivateRegressor as PrivateRegressor

__version__: str
__all__: list[str]
