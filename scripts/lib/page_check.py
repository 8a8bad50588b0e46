#!/usr/bin/env python3
"""Renders pages in headless Chromium and looks at them as a reader would.

usage: page_check.py PAGE.html FIGURES [PAGE.html FIGURES ...]

Each page must run without a script error, load nothing from anywhere, have at least FIGURES charts with
something drawn in them, answer to a pointer, and be no wider than a phone, a tablet and a screen.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WIDTHS = [360, 768, 1280]

# Goes first into the page: keeps what goes wrong.
LISTEN = """<script>window.wrong=[];
addEventListener("error",function(e){wrong.push(e.message||"cannot load "+(e.target.src||e.target.href))},true);
addEventListener("securitypolicyviolation",function(e){wrong.push("loads "+e.blockedURI)});</script>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">"""

# Looks at the page in a frame of each width.
LOOK = """<!doctype html><body><script>
const widths=WIDTHS,seen={};let left=widths.length;
for(const w of widths){const f=document.createElement("iframe");f.width=w;f.height=900;f.src=PAGE;
f.onload=function(){const d=f.contentDocument,v=f.contentWindow,o={wrong:[...v.wrong]};
o.width=d.documentElement.scrollWidth;
const shown=[...d.querySelectorAll("figure.chart")].map(g=>[...g.querySelectorAll("svg")]
 .filter(s=>v.getComputedStyle(s).display!=="none"));
o.figures=shown.length;o.two=shown.filter(s=>s.length!==1).length;
o.empty=shown.filter(s=>{const r=s[0].getBoundingClientRect();
 return r.width<200||r.height<(s[0].dataset.box?60:30)||!s[0].querySelector("path.l,path.b,path.s,circle.p")}).length;
o.broken=/NaN|undefined|Infinity/.test(d.body.innerHTML.replace(/<script[\\s\\S]*?<\\/script>/g,""));
let tips=0,asked=0;for(const s of shown.flat()){if(!s.dataset.box)continue;asked++;const r=s.getBoundingClientRect();
 s.dispatchEvent(new v.PointerEvent("pointermove",{clientX:r.left+r.width/2,clientY:r.top+r.height/2,bubbles:true}));
 if(d.querySelector(".tip b"))tips++;s.dispatchEvent(new v.PointerEvent("pointerleave"))}
o.asked=asked;o.tips=tips;o.small=[...d.querySelectorAll("svg text")].filter(t=>{
 const r=t.getBoundingClientRect();return r.height>0&&r.height<8}).length;
o.wrong.push(...v.wrong.slice(o.wrong.length));o.verdict=!!d.querySelector(".verdict")||!!d.querySelector("h1");
seen[w]=o;if(!--left){const p=document.createElement("pre");p.id="seen";p.textContent=JSON.stringify(seen);
document.body.append(p)}};document.body.append(f)}
</script>"""


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if shutil.which(name):
            return name
    sys.exit("no Chromium")


def look(page):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    # Pages beside it may be linked, and nothing is loaded.
    outside = re.findall(r"""src=["'](?!data:)[^"']*|href=["'](?!data:|#|[\w-]+/report\.html)[^"']*|url\((?!data:)[^)]*|@import""",
                         text)
    with tempfile.TemporaryDirectory() as home:
        copy, frame = pathlib.Path(home, "page.html"), pathlib.Path(home, "look.html")
        copy.write_text(text.replace("<head>", "<head>" + LISTEN, 1), encoding="utf-8")
        frame.write_text(LOOK.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGE", json.dumps("page.html")))
        command = [chromium(), "--headless", "--disable-gpu", "--disable-dev-shm-usage",
                   "--allow-file-access-from-files", f"--user-data-dir={home}/profile",
                   "--virtual-time-budget=20000", "--window-size=1400,1000", "--dump-dom", frame.as_uri()]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    if not found:
        sys.exit(f"{page}: Chromium shows nothing:\n{done.stderr[-2000:]}")
    return outside, json.loads(html.unescape(found.group(1)))


def check(page, figures):
    outside, seen = look(page)
    faults = [f"refers to {o}" for o in outside]
    for width, o in sorted(seen.items(), key=lambda s: int(s[0])):
        at = f"at {width} px: "
        faults += [at + "script error: " + w for w in o["wrong"]]
        if o["width"] > int(width):
            faults.append(at + f"{o['width']} px wide")
        if o["figures"] < figures:
            faults.append(at + f"{o['figures']} figures, not {figures}")
        for key, what in [("two", "figures drawn twice or not at all"), ("empty", "figures with nothing in them"),
                          ("small", "labels too small to read")]:
            if o[key]:
                faults.append(at + f"{o[key]} {what}")
        if o["tips"] != o["asked"]:
            faults.append(at + f"{o['tips']} of {o['asked']} figures answer to a pointer")
        if o["broken"]:
            faults.append(at + "a figure is no number")
        if not o["verdict"]:
            faults.append(at + "no heading")
    print(f"{'FAIL' if faults else 'ok  '} {page}: {min(o['figures'] for o in seen.values())} figures")
    for fault in faults:
        print(f"     {fault}")
    return not faults


if __name__ == "__main__":
    args = sys.argv[1:]
    if len(args) < 2 or len(args) % 2:
        sys.exit(__doc__)
    right = [check(page, int(figures)) for page, figures in zip(args[::2], args[1::2])]
    sys.exit(0 if all(right) else 1)
