"""Takes the pictures of the page for the documentation: `python tests/screens.py docs/images`. Needs Chromium."""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from browsers import CHROMIUM, FLAGS
from clinics import Clinic
from desks import Doors, open_doors, subject
from page_scenes import NAMES, Morning, hub_of_three, play

VIEWS: Final = {
    "sessions": "",
    "session": f"?session={subject(NAMES['deploy'][0]).id}",
    "decisions": "?view=decisions",
    "incidents": "?view=incidents&past=1",
    "agents": "?view=agents",
    "events": "?view=events",
}
SIZES: Final = {"wide": (1280, 800), "phone": (390, 844)}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        clinic = Clinic(burst=1_000_000)
        hub = hub_of_three(clinic)
        with open_doors(Path(place), clinic) as doors:
            play(doors, Morning(clinic, Path(place)), hub)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            for scheme in ("light", "dark"):
                for size in SIZES:
                    take(doors, browser, folder, scheme, size)
            browser.close()


def take(doors: Doors, browser: Browser, folder: Path, scheme: str, size: str) -> None:
    width, height = SIZES[size]
    with browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": height},
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    ) as context:
        page = context.new_page()
        page.clock.set_fixed_time(doors.house.clock.now().wall)
        page.goto(f"{doors.url}/#code={doors.call(doors.access.logins.new_code)}")
        page.locator("#link-text", has_text="live").wait_for()
        for name, query in VIEWS.items():
            picture(
                page, f"{doors.url}/{query}", folder / f"{name}-{size}-{scheme}.png", whole=name == "session"
            )


def picture(page: Page, url: str, path: Path, *, whole: bool) -> None:
    page.goto(url)
    page.locator("#link-text", has_text="live").wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)
    page.screenshot(path=path, full_page=whole)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
