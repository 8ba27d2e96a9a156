// Draws the page's charts from the specifications in it. Colour names such as "@ink" become the stylesheet's colours.

const OPTIONS = {
  mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true },
};

function coloured(part, style) {
  if (typeof part === "string") return /^@[a-z-]+$/.test(part) ? style.getPropertyValue(`--${part.slice(1)}`).trim() : part;
  if (Array.isArray(part)) return part.map((value) => coloured(value, style));
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, name === "values" ? value : coloured(value, style)]));
}

// As `sized` of charts.py: of maps and of squares the height follows from the width.
function sizeOf(shape, room) {
  if (!shape) return { width: room };
  const width = Math.min(room, shape.widest ?? room);
  return { width, height: Math.min(shape.ratio * (width - shape.beside), shape.tallest) };
}

async function draw(figure) {
  const drawing = figure.querySelector(".drawing");
  const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
  const style = getComputedStyle(document.documentElement);
  figure.embedded?.finalize();
  figure.shape = spec.usermeta;
  const size = sizeOf(figure.shape, drawing.clientWidth);
  const sized = { ...coloured(spec, style), ...size, params: [{ name: "room", value: size.width }] };
  figure.embedded = await window.vegaEmbed(drawing, sized, OPTIONS);
  figure.dataset.drawn = "yes";
}

const figures = () => [...document.querySelectorAll("figure[data-chart]")];
const drawAll = () => Promise.all(figures().map(draw));
let settled = null;
addEventListener("resize", () => {
  clearTimeout(settled);
  settled = setTimeout(() => {
    for (const figure of figures()) {
      const { width, height } = sizeOf(figure.shape, figure.querySelector(".drawing").clientWidth);
      if (height) figure.embedded?.view.height(height);
      figure.embedded?.view.signal("room", width).width(width).runAsync();
    }
  }, 100);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("saibot:redraw", (event) => event.detail ? draw(event.detail) : drawAll());
await drawAll();
