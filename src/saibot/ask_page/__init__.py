"""One HTML file that makes the sketches of a private request in a browser, opened from disk: `saibot ask-page`.

Beside `privatize`, this is the only code of ours that reads rows. It reads them in the browser of whoever opens the file,
and no platform may serve it: a script from a platform that nobody trusts must not see anybody's table.
"""

from saibot.ask_page.build import ask_page

__all__ = ["ask_page"]
