"use strict";
// Draws the charts in place of the SVG ones. When anything goes wrong the SVG charts simply stay.
(function () {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // The library is packed into the page; a browser that cannot unpack it keeps the SVG charts.
  async function library() {
    const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    Bokeh.set_log_level("warn");
  }

  function paint(doc) {
    const ink = dark.matches ? "#c9ced6" : "#4a505a";
    const strong = dark.matches ? "#f2f4f7" : "#1b1f24";
    const grid = dark.matches ? "#5b6370" : "#b9bfc8";
    for (const model of doc.all_models) {
      if (model.type === "LinearAxis") {
        model.major_label_text_color = ink;
        model.axis_label_text_color = ink;
      } else if (model.type === "Grid") {
        if (model.dimension === 1) model.grid_line_color = grid;
      } else if (model.type === "LinearColorMapper") {
        const [from, to] = dark.matches ? ["#0072b2", "#56b4e9"] : ["#56b4e9", "#0072b2"];
        model.palette = model.palette.map((colour) => String(colour).replace(from, to));
      } else if (model.type === "Label") {
        model.text_color = strong;
      } else if (model.type === "GlyphRenderer" && model.tags.includes("limit")) {
        model.glyph.line_color = strong;
      }
    }
  }

  function label(doc) {
    const width = document.querySelector(".chart").clientWidth - 66;
    for (const model of doc.all_models) {
      if (model.type !== "Label" || model.tags[0] !== "band") continue;
      const [, short, share, long] = model.tags;
      model.text = share * width > 7 * long.length ? long : short;
    }
  }

  library().then(() => Bokeh.embed.embed_items(data.docs, data.items)).then(() => {
    const doc = Bokeh.documents[Bokeh.documents.length - 1];
    const fit = () => label(doc);
    paint(doc);
    fit();
    dark.addEventListener("change", () => paint(doc));
    window.addEventListener("resize", fit);
    const zero = Date.parse(document.getElementById("charts")?.dataset.zero ?? "");
    const axes = doc.roots().map((figure) => figure.below[0]);
    const seconds = axes.map((axis) => axis.formatter.doFormat);
    const named = axes[axes.length - 1].axis_label;
    document.addEventListener("times", (event) => {
      if (Number.isNaN(zero)) return;
      const local = event.detail === "local";
      const clock = (t) => new Date(zero + 1000 * t).toTimeString().slice(0, 8);
      axes.forEach((axis, i) => {
        axis.formatter.doFormat = local ? (ticks) => ticks.map(clock) : seconds[i];
        axis.formatter.change.emit();
      });
      axes[axes.length - 1].axis_label = local ? "local time" : named;
    });
    const range = doc.roots()[0].x_range;
    const [first, last] = range.bounds;
    // Keeps the shown stretch of time inside the run.
    function show(start, end) {
      const length = Math.min(end - start, last - first);
      const begin = Math.min(Math.max(start, first), last - length);
      range.setv({ start: begin, end: begin + length });
    }
    document.getElementById("zoom-out")?.addEventListener("click", () => show(first, last));
    document.getElementById("charts")?.addEventListener("keydown", (event) => {
      const length = range.end - range.start;
      const middle = (range.start + range.end) / 2;
      const keys = {
        "+": () => show(middle - length / 4, middle + length / 4),
        "-": () => show(middle - length, middle + length),
        "0": () => show(first, last),
        ArrowLeft: () => show(range.start - length / 4, range.end - length / 4),
        ArrowRight: () => show(range.start + length / 4, range.end + length / 4),
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    root.dataset.charts = String(doc.roots().length);
    root.dataset.chartsMs = String(Math.round(performance.now()));
  }).catch((error) => { root.dataset.chartError = String(error); });
})();
