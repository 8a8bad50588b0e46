"use strict";
(function () {
  function num(x) {
    var a = Math.abs(x), d = a >= 100 || a === 0 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(a)));
    var t = x.toFixed(d);
    if (t.indexOf(".") >= 0) t = t.replace(/\.?0+$/, "");
    var p = t.split(".");
    p[0] = p[0].replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return p.join(".");
  }
  function form(x, f) {
    var a = Math.abs(x);
    if (f === "t") return a >= 1e9 ? num(x / 1e9) + "\u00a0s" : a >= 1e6 ? num(x / 1e6) + "\u00a0ms" : a >= 1e3 ? num(x / 1e3) + "\u00a0\u00b5s" : num(x) + "\u00a0ns";
    if (f === "b") return a >= 1073741824 ? num(x / 1073741824) + "\u00a0GiB" : a >= 1048576 ? num(x / 1048576) + "\u00a0MiB" : a >= 1024 ? num(x / 1024) + "\u00a0KiB" : num(x) + "\u00a0B";
    if (f === "9") return String(+(100 - Math.pow(10, 2 - x)).toFixed(5)) + "\u00a0%";
    return num(x);
  }
  document.querySelectorAll("figure.chart").forEach(function (figure) {
    var source = figure.querySelector("script");
    if (!source) return;
    var data = JSON.parse(source.textContent), tip = null;
    function hide() {
      if (tip) { tip.remove(); tip = null; }
      figure.querySelectorAll(".cursor").forEach(function (c) { c.setAttribute("d", ""); });
    }
    figure.querySelectorAll("svg").forEach(function (svg) {
      var box = svg.dataset.box.split(" ").map(Number), ends = svg.dataset.x.split(" ").map(Number);
      function f(x) { return ends[2] ? Math.log10(x) : x; }
      function place(x) { return box[0] + (f(x) - f(ends[0])) / (f(ends[1]) - f(ends[0])) * (box[2] - box[0]); }
      function show(event) {
        var r = svg.getBoundingClientRect(), scale = r.width / svg.viewBox.baseVal.width;
        var at = (event.clientX - r.left) / scale, best = -1, far = Infinity;
        data.x.forEach(function (x, i) {
          if (data.s.every(function (s) { return s[2][i] === null; })) return;
          var d = Math.abs(place(x) - at); if (d < far) { far = d; best = i; }
        });
        if (best < 0 || at < box[0] - 12 || at > box[2] + 12) return hide();
        var px = place(data.x[best]);
        svg.querySelector(".cursor").setAttribute("d", "M" + px + " " + box[1] + "V" + box[3]);
        if (!tip) { tip = document.createElement("div"); tip.className = "tip"; figure.appendChild(tip); }
        tip.textContent = "";
        var head = document.createElement("div");
        head.textContent = data.xn + " " + form(data.x[best], data.xf);
        tip.appendChild(head);
        data.s.forEach(function (s) {
          if (s[2][best] === null) return;
          var row = document.createElement("div"), key = document.createElement("i"), value = document.createElement("b");
          key.className = "k" + s[1];
          value.textContent = form(s[2][best], data.yf);
          row.append(key, value, " " + s[0]);
          tip.appendChild(row);
        });
        var home = figure.getBoundingClientRect(), x = r.left - home.left + px * scale + 14;
        if (x + tip.offsetWidth > home.width - 8) x = Math.max(4, x - tip.offsetWidth - 28);
        tip.style.left = x + "px";
        tip.style.top = r.top - home.top + 24 + "px";
      }
      svg.addEventListener("pointermove", show);
      svg.addEventListener("pointerdown", show);
      svg.addEventListener("pointerleave", hide);
    });
  });
})();
