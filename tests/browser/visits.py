"""What a real browser finds on a page: rules of accessibility, contrast, stops of the keyboard, width, requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.chromium import PHONE, Tab


@dataclass
class Visit:
    """What a browser saw on one page."""

    words: str = ""
    faults: dict[str, list[str]] = field(default_factory=dict)
    dim: dict[str, list[str]] = field(default_factory=dict)
    ground: dict[str, str] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)
    width: int = 0
    stops: list[dict[str, Any]] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    title: str = ""


# Text, and lines of pictures, that are too near to the color behind them: WCAG's ratios are 4.5 and 3.
DIM = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(each => each / 255)
    .map(each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return parse(getComputedStyle(document.body).backgroundColor);
  };
  const ratio = (element, color) => {
    const both = [light(parse(color)), light(behind(element))].sort((a, b) => b - a);
    return (both[0] + 0.05) / (both[1] + 0.05);
  };
  const found = [];
  const look = (element, color, least) => {
    const seen = ratio(element, color);
    if (seen < least) found.push(`${element.outerHTML.slice(0, 100)}: ${seen.toFixed(2)}`);
  };
  for (const each of document.querySelectorAll("svg text")) look(each, getComputedStyle(each).fill, 4.5);
  for (const each of document.querySelectorAll("svg .error, svg .trace, svg .dot, svg .dots, svg .cross"))
    look(each, getComputedStyle(each).stroke, 3);
  for (const each of document.querySelectorAll("svg .spent")) look(each, getComputedStyle(each).fill, 3);
  for (const each of document.querySelectorAll("main *"))
    if ([...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && !each.closest("svg"))
      look(each, getComputedStyle(each).color, 4.5);
  return found;
}"""

# Texts of a picture that are on each other, or cut without an ellipsis. A name is in a frame that cuts it off.
OVERLAPS = """() => [...document.querySelectorAll("svg.chart")].flatMap(chart => {
  const whole = chart.getBoundingClientRect(), scale = whole.width / chart.viewBox.baseVal.width;
  const seen = [...chart.querySelectorAll("text")].map(text => {
    const box = text.getBoundingClientRect(), frame = text.ownerSVGElement;
    const end = frame === chart ? whole.right : whole.left + frame.width.baseVal.value * scale;
    const cut = box.left < whole.left - 1 || box.right > end + 1 || box.bottom > whole.bottom + 2;
    return {words: text.textContent, left: box.left, right: Math.min(box.right, end),
            top: box.top + 3, bottom: box.bottom - 3, cut};
  });
  return seen.flatMap((a, place) => [
    ...(a.cut && !a.words.endsWith("…") ? [`${a.words} is cut`] : []),
    ...seen.slice(place + 1)
      .filter(b => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
      .map(b => `${a.words} is on ${b.words}`),
  ]);
})"""

OF_COLORS = ["color-contrast", "link-in-text-block"]
"""The rules of axe that depend on colors."""

STOPS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"

WANTED = """stops => [...document.querySelectorAll(stops)].filter(each => each.checkVisibility())
  .map(each => each.outerHTML.slice(0, 100))"""

# Where the keyboard is: which stop, whether a ring is drawn around it, and whether it is in sight.
AT = """stops => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  return {
    place: [...document.querySelectorAll(stops)].filter(each => each.checkVisibility()).indexOf(at),
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    what: at.outerHTML.slice(0, 100),
  };
}"""


async def walked(tab: Tab, most: int = 200) -> list[dict[str, Any]]:
    """Every stop of the keyboard, from the top of the page to its end."""
    found = []
    for _ in range(most):
        await tab.page.keyboard.press("Tab")
        stop = await tab.page.evaluate(AT, STOPS)
        # At the end, a browser goes on in its own window, or begins anew.
        if stop["place"] < 0 or stop["place"] in {each["place"] for each in found}:
            break
        found.append(stop)
    return found


async def look(tab: Tab) -> Visit:
    """Look at the page that a tab shows in every way; it has the width of a phone from then on."""
    visit = Visit(words=await tab.words(), title=await tab.page.title())
    visit.overlaps = await tab.page.evaluate(OVERLAPS)
    visit.wanted = await tab.page.evaluate(WANTED, STOPS)
    visit.stops = await walked(tab)
    for scheme in ("light", "dark"):
        await tab.page.emulate_media(color_scheme=scheme)
        visit.ground[scheme] = await tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        # Nothing but colors differs in the dark.
        visit.faults[scheme] = await (tab.faults() if scheme == "light" else tab.faults(runOnly=OF_COLORS))
        visit.dim[scheme] = await tab.page.evaluate(DIM)
    await tab.page.set_viewport_size(PHONE)
    visit.width = await tab.page.evaluate("document.documentElement.scrollWidth")
    visit.asked, visit.said = tab.asked, tab.said
    return visit


def faults_of(visit: Visit) -> list[str]:
    """What is not as it has to be for people who see little, or use a keyboard, or a phone."""
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 26)"}
    found = [f"{scheme}: {each}" for kind in (visit.faults, visit.dim) for scheme in ground for each in kind[scheme]]
    found += [
        f"{scheme} is on {visit.ground[scheme]}" for scheme, wanted in ground.items() if visit.ground[scheme] != wanted
    ]
    if [each["place"] for each in visit.stops] != list(range(len(visit.wanted))):
        found.append(f"the keyboard reaches {[each['what'] for each in visit.stops]} of {visit.wanted}")
    found += [
        f"not in sight, or without a ring: {each['what']}"
        for each in visit.stops
        if not each["ring"] or not each["seen"]
    ]
    return found + visit.overlaps + [f"{visit.width} wide on a phone"] * (visit.width != PHONE["width"])
