"""Pages as a browser lays them out: how long and wide they are, and what cannot be read."""

import html
import json
import re
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Width and height in CSS pixels.
DESKTOP, PHONE = (1280, 800), (390, 844)

# Lays the page out in frames of these sizes, in each of its languages, and writes down what is wrong.
LOOK = """
<!doctype html><meta charset=utf-8><pre id=seen></pre><script>
const page = PAGE, looks = LOOKS;
const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const contrast = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
const colour = text => (text.match(/[\\d.]+/g) || []).map(Number);
const isScrolled = (view, e) => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(view.getComputedStyle(e).overflowX) && e.tagName != 'BODY' && e.tagName != 'HTML') return true; return false; };
function behind(view, element) {
  for (let e = element; e; e = e.parentElement) {
    const c = colour(view.getComputedStyle(e).backgroundColor);
    if (c.length == 3 || c[3] > 0.99) return c.slice(0, 3);
  }
  return [255, 255, 255];
}
function look(frame, wide, high, korean) {
  const view = frame.contentWindow, doc = frame.contentDocument, root = doc.documentElement;
  const choice = doc.getElementById(korean ? 'korean' : 'english');
  if (choice) choice.checked = true;
  const dark = view.matchMedia('(prefers-color-scheme: dark)').matches;
  const seen = {width: wide, korean, dark, screens: root.scrollHeight / high, tooWide: root.scrollWidth - wide, small: [], faint: [], cut: [], overlapping: []};
  const walk = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, element = node.parentElement, text = node.data.trim();
    if (!text || /^(STYLE|SCRIPT|TITLE)$/.test(element.tagName)) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect(), style = view.getComputedStyle(element);
    if (!box.width || style.visibility == 'hidden' || !element.checkVisibility()) continue;
    if (parseFloat(style.fontSize) < 11) seen.small.push(text + ' ' + style.fontSize);
    const ratio = contrast(colour(style.color).slice(0, 3), behind(view, element));
    if (ratio < 4.5) seen.faint.push(text + ' ' + ratio.toFixed(2));
    if ((box.left < -0.5 || box.right > wide + 0.5) && !isScrolled(view, element)) seen.cut.push(text);
  }
  for (const group of doc.querySelectorAll('.axis, .plot')) {
    const boxes = [...group.children].filter(e => /^(SPAN|B)$/.test(e.tagName) && e.checkVisibility()).map(e => [e.textContent, e.getBoundingClientRect()]);
    boxes.forEach(([a, p], at) => boxes.slice(at + 1).forEach(([b, q]) => {
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1) seen.overlapping.push(a + ' and ' + b);
    }));
  }
  return seen;
}
const all = looks.map(([wide, high, korean]) => new Promise(done => {
  const frame = document.createElement('iframe');
  frame.style = `width:${wide}px;height:${high}px;border:0`;
  frame.srcdoc = page;
  frame.onload = () => { done(look(frame, wide, high, korean)); };
  document.body.append(frame);
}));
Promise.all(all).then(seen => { document.getElementById('seen').textContent = JSON.stringify(seen); });
</script>
"""


def run(*arguments):
    """Chromium without a window, network or anything of an earlier run."""
    with tempfile.TemporaryDirectory() as profile:
        quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic")
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *quiet, f"--user-data-dir={profile}", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def look(page, folder, dark):
    """What a browser sees of a page, on a desk and on a phone, in English and Korean."""
    looks = [(*size, korean) for size in (DESKTOP, PHONE) for korean in (False, True)]
    text = page.read_text().replace("</script", "<\\/script")
    wrapped = folder / "look.html"
    wrapped.write_text(LOOK.replace("PAGE", json.dumps(text)).replace("LOOKS", json.dumps(looks)))
    # The scheme that pages ask for as `prefers-color-scheme`: 0 is dark, 1 is light.
    dom = run(f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", wrapped.as_uri())
    return json.loads(html.unescape(re.search(r"<pre id=\"seen\">(.*?)</pre>", dom, re.S)[1]))
