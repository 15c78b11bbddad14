"""Colours of `wakeful top`, dark and light; each colour has one meaning."""

from typing import Final

from textual.theme import Theme

# Amber needs a person, red is a problem, green works; everything else is quiet.
PALETTES: Final[dict[str, dict[str, str]]] = {
    "wakeful-dark": {
        "text": "#d6dae0",
        "background": "#14171c",
        "surface": "#1a1e25",
        "cursor": "#2a3240",
        "quiet": "#7d8794",
        "lost": "#5b636e",
        "success": "#7fb785",
        "warning": "#e5b567",
        "error": "#e06c75",
        "accent": "#79a8d9",
        "secondary": "#b294bb",
    },
    "wakeful-light": {
        "text": "#23272e",
        "background": "#fbfaf7",
        "surface": "#f1efe9",
        "cursor": "#e0e6ef",
        "quiet": "#6f757e",
        "lost": "#a3a7ad",
        "success": "#2f7d3b",
        "warning": "#9a6200",
        "error": "#b3262f",
        "accent": "#225f9c",
        "secondary": "#7a4b8a",
    },
}


def themes() -> list[Theme]:
    return [_theme(name, colours) for name, colours in PALETTES.items()]


def _theme(name: str, colours: dict[str, str]) -> Theme:
    return Theme(
        name=name,
        dark=name.endswith("dark"),
        primary=colours["accent"],
        secondary=colours["secondary"],
        warning=colours["warning"],
        error=colours["error"],
        success=colours["success"],
        accent=colours["accent"],
        foreground=colours["text"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["surface"],
        boost=colours["cursor"],
        variables={
            "quiet": colours["quiet"],
            "lost": colours["lost"],
            "cursor": colours["cursor"],
            "footer-key-foreground": colours["accent"],
            "footer-description-foreground": colours["quiet"],
            "footer-background": colours["surface"],
            "input-cursor-foreground": colours["background"],
        },
    )


def styles(name: str, *, is_lost: bool = False) -> dict[str, str]:
    """The styles of a theme. Without a connection only the line that says so has a colour."""
    colours = PALETTES[name]
    grey = colours["lost"]
    loud = f"bold {colours['background']} on"
    if is_lost:
        plain = dict.fromkeys(
            ("success", "warning", "error", "accent", "text", "strong", "quote", "needs-you"), grey
        )
        return plain | {
            "quiet": grey,
            "title": f"bold {grey}",
            "lost": f"{loud} {colours['error']}",
            "paused": f"bold {grey}",
        }
    return {
        "text": colours["text"],
        "strong": f"bold {colours['text']}",
        "title": f"bold {colours['text']}",
        "quote": f"italic {colours['accent']}",
        "needs-you": f"bold {colours['warning']}",
        "paused": f"{loud} {colours['warning']}",
        "lost": f"{loud} {colours['error']}",
        **{key: colours[key] for key in ("quiet", "success", "warning", "error", "accent")},
    }
