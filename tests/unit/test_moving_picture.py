"""The moving picture of the README: what a terminal showed, as an SVG."""

from xml.etree import ElementTree as ET

from bench.moving_picture import ROWS, Frame, merge_frames, moving_svg

SVG = "{http://www.w3.org/2000/svg}"


def frame(*lines: str, seconds: float = 1.0) -> Frame:
    return Frame((*lines, *[""] * (ROWS - len(lines))), seconds)


def test_equal_screens_become_one_frame() -> None:
    merged = merge_frames(iter([frame("a"), frame("a"), frame("b"), frame("a")]))
    assert [(each.lines[0], each.seconds) for each in merged] == [("a", 2.0), ("b", 1.0), ("a", 1.0)]


def test_a_line_that_stays_is_drawn_once_and_the_others_when_they_were_shown() -> None:
    picture = ET.fromstring(moving_svg([frame("same", "one"), frame("same", "two", seconds=3.0)]))
    assert [each.text for each in picture.findall(f"{SVG}text/{SVG}tspan")] == ["same"]
    moving = picture.findall(f"{SVG}g")
    shown = {each.findtext(f"{SVG}text/{SVG}tspan"): each.find(f"{SVG}animate") for each in moving}
    times = {
        text: (found.get("keyTimes"), found.get("values"))
        for text, found in shown.items()
        if found is not None
    }
    assert times == {"one": ("0;0.25000", "visible;hidden"), "two": ("0;0.25000", "hidden;visible")}


def test_without_motion_the_last_screen_is_shown() -> None:
    picture = ET.fromstring(moving_svg([frame("one"), frame("two")]))
    assert [(each.get("class"), each.get("visibility")) for each in picture.findall(f"{SVG}g")] == [
        ("frame", "hidden"),
        ("frame last", "visible"),
    ]


def test_colours_and_columns_stay_and_text_is_no_markup() -> None:
    picture = ET.fromstring(moving_svg([frame("ab \x1b[1;31m<b>&\x1b[0m")]))
    spans = [(each.text, each.get("x"), each.get("font-weight")) for each in picture.iter(f"{SVG}tspan")]
    assert spans == [("ab ", "12", None), ("<b>&", "37.2", "bold")]
