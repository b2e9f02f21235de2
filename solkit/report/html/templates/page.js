"use strict";
// Figures come as JSON with colours by name, compressed as Plotly is. They are drawn when they come
// into view, again when the theme changes, and in light colours at a page's width for print.

let charts = {};
const root = document.documentElement;
const NARROW_PX = 560;
const PRINTED_PX = 680; // within the margins of A4

// ---------------------------------------------------------------------------------- drawing

async function unpacked(script) {
  const packed = Uint8Array.from(atob(script.textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function load() {
  charts = JSON.parse(await unpacked(document.getElementById("charts")));
  if (!Object.keys(charts).length) return;
  const script = document.createElement("script");
  script.textContent = await unpacked(document.getElementById("plotly"));
  document.head.append(script);
}

/** A copy of a figure with the colours of the theme that is on. */
function coloured(value, style) {
  if (typeof value === "string") {
    return value.replace(/var\((--[a-z]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  }
  if (Array.isArray(value)) return value.map((each) => coloured(each, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
  }
  return value;
}

function draw(plot, width) {
  const { data, layout } = coloured(charts[plot.id], getComputedStyle(root));
  layout.width = width ?? plot.clientWidth;
  if (layout.width < NARROW_PX) {
    layout.font.size = 11;
    layout.margin = { l: 4, r: 8, t: 8, b: 4 };
    for (const trace of data) trace.text = trace.meta?.narrow ?? trace.text;
  }
  // Dragging on a touch screen is for scrolling.
  layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  plot.dataset.drawn = "";
  return Plotly.react(plot, data, layout, {
    displaylogo: false,
    displayModeBar: layout.width < NARROW_PX ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg", filename: plot.id },
  });
}

/** Draw again what has been drawn: at once where it can be seen, else when it is. */
function redraw() {
  document.querySelectorAll(".plot[data-drawn]").forEach((plot) => {
    if (plot.clientWidth) return draw(plot);
    delete plot.dataset.drawn;
    seen.observe(plot);
  });
}

const seen = new IntersectionObserver(
  (entries) => entries.filter((e) => e.isIntersecting).forEach((e) => {
    seen.unobserve(e.target);
    draw(e.target);
  }),
  { rootMargin: "300px" },
);

const loaded = load();

function watch(plot) {
  loaded.then(() => seen.observe(plot), () => {
    plot.classList.add("failed");
    plot.textContent = "This browser cannot draw the figure; the tables hold its numbers.";
  });
}

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return; // a phone's address bar comes and goes
  width = innerWidth;
  redraw();
});

// --------------------------------------------------------------------------------- controls

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

function chooseRoofs(controls) {
  const plot = document.getElementById(controls.dataset.for);
  const on = new Set([...controls.querySelectorAll("[data-rates]:checked")].map((box) => box.dataset.rates));
  const unused = controls.querySelector("[data-unused]").checked;
  for (const trace of charts[plot.id].data) {
    if (trace.meta?.rates) trace.visible = on.has(trace.meta.rates) && (trace.meta.used || unused);
  }
  if ("drawn" in plot.dataset) draw(plot);
}

function chooseShape(select) {
  document.getElementById(select.dataset.source).querySelectorAll("[data-shape]").forEach((cost) => {
    cost.hidden = cost.dataset.shape !== select.value;
  });
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-for] input")) chooseRoofs(target.closest("[data-for]"));
  if (target.matches("select[data-source]")) chooseShape(target);
});

// ----------------------------------------------------------- kernels, packed until they are opened

function openKernel(kernel) {
  kernel.open = true;
  kernel.opened ??= (async () => {
    const script = kernel.querySelector(":scope > script");
    if (!script) return;
    kernel.insertAdjacentHTML("beforeend", await unpacked(script));
    script.remove();
    kernel.querySelectorAll(".plot").forEach(watch);
  })();
  return kernel.opened;
}
const toggled = ({ target }) => target.matches(".kernel[open]") && openKernel(target);
document.addEventListener("toggle", toggled, { capture: true }); // it does not bubble

async function show() {
  const name = decodeURIComponent(location.hash.slice(1));
  const kernel = document.getElementById(name.split("-")[0]);
  if (kernel?.matches(".kernel")) await openKernel(kernel);
  const target = document.getElementById(name);
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", show);

// ------------------------------------------------------------------------------------ print

const before = { theme: undefined, shut: [] };
addEventListener("beforeprint", () => {
  before.theme = root.dataset.theme;
  before.shut = [...document.querySelectorAll(".kernel[open] details:not([open])")];
  before.shut.forEach((part) => (part.open = true));
  root.dataset.theme = "light";
  if (window.Plotly) document.querySelectorAll(".plot").forEach((plot) => plot.clientWidth && draw(plot, PRINTED_PX));
});
addEventListener("afterprint", () => {
  before.shut.forEach((part) => (part.open = false));
  if (before.theme) root.dataset.theme = before.theme;
  else delete root.dataset.theme;
  redraw();
});

document.querySelectorAll(".plot").forEach(watch);
show();
