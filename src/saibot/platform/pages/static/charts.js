// Draws the page's charts from the specifications in it. Colour names such as "@ink" become the stylesheet's colours.

const OPTIONS = {
  mode: "vega-lite", ast: true, logLevel: 1, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true },
};

function coloured(part, style) {
  if (typeof part === "string") return /^@[a-z-]+$/.test(part) ? style.getPropertyValue(`--${part.slice(1)}`).trim() : part;
  if (Array.isArray(part)) return part.map((value) => coloured(value, style));
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, name === "values" ? value : coloured(value, style)]));
}

async function draw(figure) {
  const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
  const drawing = figure.querySelector(".drawing");
  const { view } = await window.vegaEmbed(drawing, coloured(spec, getComputedStyle(document.documentElement)), OPTIONS);
  await view.runAsync();
  figure.dataset.drawn = "yes";
}

const drawAll = () => Promise.all([...document.querySelectorAll("figure[data-chart]")].map(draw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("saibot:redraw", drawAll);
await drawAll();
