"""Pages on a phone: what stands outside a table's rows is not cut off at the edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli import main as cli
from tests.browser import Browser

WIDTH = 375
#: Captions whose words end beyond the box that their table scrolls in, and how far the page does.
CUT_OFF = """
[...document.querySelectorAll('caption')].filter(caption => {
  const words = document.createRange();
  words.selectNodeContents(caption);
  const box = caption.closest('.scroll') || document.body;
  return words.getBoundingClientRect().right > box.getBoundingClientRect().right + 0.5;
}).map(caption => caption.textContent)
"""
#: Words beside numbers in full that go on in another line.
BROKEN = """
[...document.querySelectorAll('.digits th')].flatMap(head => {
  const walk = document.createTreeWalker(head, NodeFilter.SHOW_TEXT), found = [];
  for (let text = walk.nextNode(); text; text = walk.nextNode())
    for (const word of text.data.matchAll(/[a-zA-Z_]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  return found;
})
"""
PAGES = {
    "report": ("presets/llama70b_h100x1024.yaml", "--set", "parallelism=auto"),
    "search": ("search", "presets/mixtral8x7b_h100x1024.yaml"),
}


@pytest.mark.slow(every=5)
@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_captions_are_whole_on_a_phone(name: str, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli.main([*PAGES[name], "-o", str(page)]) == 0
    browser.open(page)
    browser.resize(WIDTH, mobile=True)
    browser.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert browser.run("document.querySelectorAll('caption, .note').length") > 1
    assert browser.run(CUT_OFF) == browser.run(BROKEN) == []
    assert browser.run("document.documentElement.scrollWidth") <= WIDTH


#: Cells, words of charts and of the answer that are seen and end beyond the window, or beyond the
#: box that they would have to be scrolled in.
BEYOND = """
[...document.querySelectorAll('h1, .facts li, main :is(td, th), svg text')].filter(part => {
  const box = part.getBoundingClientRect(), scrolled = part.closest('.scroll');
  const right = scrolled ? scrolled.getBoundingClientRect().right : innerWidth;
  return box.width && (box.right > Math.min(right, innerWidth) + 1 || box.left < -1);
}).map(part => part.textContent)
"""
ANSWERS = {
    "search": ("search", "presets/mixtral8x7b_h100x1024.yaml"),
    "devices": ("sweep", "presets/studies/llama70b_devices.yaml"),
    "models": ("sweep", "presets/studies/models_by_budget.yaml"),
}


@pytest.mark.slow(every=5)
@pytest.mark.browser
@pytest.mark.parametrize("name", ANSWERS)
def test_no_column_of_a_study_or_a_search_is_cut_off(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert cli.main([*ANSWERS[name], "-o", str(page)]) == 0
    browser.open(page)
    for width in (390, 1300):
        browser.resize(width, 900, mobile=width < 800)
        assert browser.run("document.querySelectorAll('main td').length") > 20
        assert browser.run("document.querySelectorAll('svg text').length") > 20
        assert browser.run(BEYOND) == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        small = "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect())"
        assert min(browser.run(f"{small}.map(box => box.height)")) >= 12  # 11 px of letters
