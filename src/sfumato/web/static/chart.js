// Charts: a Vega-Lite specification from the server, coloured by the page's style sheet, drawn without `eval`.
import { View, compile, expressionInterpreter, parse } from "./vendor/vega.js";

function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ink: get("--ink"), quiet: get("--quiet"), line: get("--line"), mark: get("--mark"), accent: get("--accent-text"),
    series: get("--series").split(",").map((c) => c.trim()), font: get("--sans-name"),
  };
}

function config(c) {
  const words = { labelFont: c.font, titleFont: c.font, labelFontSize: 14, titleFontSize: 14, labelLimit: 220 };
  return {
    background: null,
    font: c.font,
    view: { stroke: null },
    axis: { ...words, labelColor: c.ink, titleColor: c.quiet, titleFontWeight: "normal", gridColor: c.line, domainColor: c.line, tickColor: c.line },
    axisY: { grid: false, ticks: false, domain: false, labelPadding: 8 },
    axisXQuantitative: { tickCount: 6 },
    axisYQuantitative: { grid: true, tickCount: 5 },
    legend: { ...words, labelColor: c.ink, titleColor: c.quiet, titleFontWeight: "normal", symbolType: "circle" },
    range: { category: c.series },
    style: {
      mark: { color: c.mark, cornerRadiusEnd: 2 },
      shade: { opacity: 0.42, cornerRadiusEnd: 2 },
      interval: { color: c.accent, strokeWidth: 2, strokeCap: "round", opacity: 0.75 },
      dot: { color: c.accent, size: 55, opacity: 1 },
      thread: { color: c.mark, strokeWidth: 1.5 },
      said: { fill: c.ink, font: c.font, fontSize: 13 },
    },
  };
}

// A small note at the pointer; the page's own style, no markup from data.
function tooltip(_handler, event, _item, value) {
  let note = document.getElementById("chart-note");
  if (!note) {
    note = document.createElement("div");
    note.id = "chart-note";
    note.setAttribute("role", "tooltip");
    document.body.append(note);
  }
  note.hidden = value === null || value === undefined || value === "";
  if (note.hidden) return;
  note.replaceChildren(...Object.entries(value).map(([name, text]) => {
    const line = document.createElement("div");
    line.append(`${name}: `, Object.assign(document.createElement("b"), { textContent: String(text) }));
    return line;
  }));
  note.style.left = `${Math.min(event.clientX + 14, innerWidth - note.offsetWidth - 8)}px`;
  note.style.top = `${event.clientY + 14}px`;
}

export async function draw(place) {
  const width = Math.max(240, place.clientWidth);
  const spec = JSON.parse(place.dataset.spec);
  const fit = (part) => ({ ...part, width });
  const sized = spec.vconcat ? { ...spec, vconcat: spec.vconcat.map(fit) } : fit(spec);
  sized.autosize = { type: spec.vconcat ? "pad" : "fit-x", contains: "padding" };
  const compiled = compile(sized, { config: config(colours()) }).spec;
  const view = new View(parse(compiled, null, { ast: true }), {
    renderer: "svg", container: place, hover: true, expr: expressionInterpreter, tooltip,
  });
  await view.runAsync();
  place.dataset.drawn = "yes";
}
