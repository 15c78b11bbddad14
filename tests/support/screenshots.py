"""Takes the pictures of the page for the documentation: `python tests/support/screenshots.py docs/images`.

Needs Chromium; where Debian's pngquant is installed the pictures are a third of the size.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from support.chromium import CHROMIUM, FLAGS, is_live
from support.healing_fixture import HealingFixture
from support.page_fixture import NAMES, MorningFixture, hub_of_three, play
from support.supervisor_fixture import HttpFixture, open_http_fixture, subject

VIEWS: Final = {
    "sessions": "",
    "session": f"?session={subject(NAMES['deploy'][0]).id}",
    "decisions": "?view=decisions",
    "incidents": "?view=incidents&past=1",
    "agents": "?view=agents",
    "events": "?view=events",
    "timeline": "?view=timeline",
    "report": "?view=report",
}
LOOKS: Final = {"light": (1280, 800), "dark": (1280, 800), "phone": (390, 844)}
# One session has more to show than a screen.
SESSION_HEIGHT: Final = 1560
PNGQUANT: Final = ("pngquant", "--force", "--skip-if-larger", "--ext", ".png", "--")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        clinic = HealingFixture(burst=1_000_000)
        hub = hub_of_three(clinic)
        with open_http_fixture(Path(place), clinic) as doors:
            play(doors, MorningFixture(clinic, Path(place)), hub)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            for look in LOOKS:
                take(doors, browser, folder, look)
            browser.close()
    if shutil.which("pngquant") is not None:
        # 99: nothing would become smaller.
        subprocess.run([*PNGQUANT, *map(str, folder.glob("page-*.png"))], check=False)


def take(doors: HttpFixture, browser: Browser, folder: Path, look: str) -> None:
    width, height = LOOKS[look]
    with browser.new_context(
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": width, "height": height},
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    ) as context:
        page = context.new_page()
        page.clock.set_fixed_time(doors.house.clock.now().wall)
        page.goto(f"{doors.url}/#code={doors.call(doors.access.logins.new_code)}")
        is_live(page)
        for name, query in VIEWS.items():
            if name == "session":
                page.set_viewport_size({"width": width, "height": SESSION_HEIGHT})
            picture(page, f"{doors.url}/{query}", folder / f"page-{name}-{look}.png")
            page.set_viewport_size({"width": width, "height": height})


def picture(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    is_live(page)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
