"use strict";
// Draws the charts in place of the SVG ones. When anything goes wrong the SVG charts simply stay.
(function () {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  Bokeh.set_log_level("warn");

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

  Bokeh.embed.embed_items(data.docs, data.items).then(() => {
    const doc = Bokeh.documents[Bokeh.documents.length - 1];
    const fit = () => label(doc);
    paint(doc);
    fit();
    dark.addEventListener("change", () => paint(doc));
    window.addEventListener("resize", fit);
    document.getElementById("zoom-out").addEventListener("click", () => {
      const range = doc.all_models.values().next().value && doc.roots()[0].x_range;
      const [start, end] = range.bounds;
      range.setv({start, end});
    });
    root.dataset.charts = String(doc.roots().length);
  }).catch((error) => { root.dataset.chartError = String(error); });
})();
