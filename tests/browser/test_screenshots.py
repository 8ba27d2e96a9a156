"""Pictures of the pages hold few colours, and those of the charts and dots among them."""

from __future__ import annotations

from PIL import Image

from saibot.report.picture import colours

from .screenshots import COLOURS, with_few_colours


def test_a_small_dot_keeps_its_colour_among_many_others() -> None:
    drawn = Image.new("RGB", (200, 200), "#ffffff")
    for number in range(3 * COLOURS):  # greys and blues that are each more common than the dot
        drawn.paste((number % 256, 200, 255 - number % 256), (0, number % 195, 200, number % 195 + 1))
    dot = colours("dark")["chart-second"]
    drawn.putpixel((100, 199), tuple(bytes.fromhex(dot[1:])))
    kept = with_few_colours(drawn, [dot]).convert("RGB")
    assert kept.getpixel((100, 199)) == tuple(bytes.fromhex(dot[1:]))
    assert with_few_colours(drawn).convert("RGB").getpixel((100, 199)) != kept.getpixel((100, 199))


def test_the_dark_scheme_renames_some_colours_and_keeps_the_others() -> None:
    light, dark = colours(), colours("dark")
    assert light.keys() == dark.keys() and light["chart-main"] != dark["chart-main"] and light["radius"] == dark["radius"]
