// Draws the picture of the figure "Train two networks that differ only in β" for paper, for README.md and
// for readers without scripts, from the figure's own arithmetic and drawing:
//   node book/tools/draw_twonets.mjs > book/_static/twonets.svg
import { readFileSync } from "node:fs";
import { crc32, deflateSync } from "node:zlib";

const STATIC = new URL("../_static/", import.meta.url);
for (const name of ["arithmetic", "drawing"]) await import(new URL(`twonets-${name}.js`, STATIC));
await import(new URL("twonets.js", STATIC));
const { QUESTIONS, pair, drawing } = globalThis.twoNets;

const sheet = readFileSync(new URL("twonets.css", STATIC), "utf8");
const colours = { text: "#222222" };
for (const name of drawing.COLOURS) colours[name] = sheet.match(`--twonets-${name}: (#\\w+)`)[1];

// -- what is drawn: a run up to a step ----------------------------------------------------------

function trained(run, steps) {
  while (run.steps < steps) run.advance();
  return run;
}
const [asked] = QUESTIONS.order.runs;
const [sure] = QUESTIONS.sure.runs;
const EARLY = 120; // steps

// -- a context that writes SVG ------------------------------------------------------------------

const short = (value) => String(Number(value.toFixed(1)));

class Context {
  constructor() {
    this.elements = [];
    this.globalAlpha = 1;
    this.dash = [];
  }
  clearRect() {}
  setLineDash(dash) {
    this.dash = dash;
  }
  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }
  lineTo(x, y) {
    this.path += `L${short(x)} ${short(y)}`;
  }
  closePath() {
    this.path += "z";
  }
  arc(x, y, radius) {
    const [r, across] = [short(radius), short(2 * radius)]; // the drawing moves to x + radius first
    this.path += `a${r} ${r} 0 1 0 -${across} 0a${r} ${r} 0 1 0 ${across} 0`;
  }
  paint(attributes) {
    const alpha = this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : "";
    if (this.path) this.elements.push(`<path d="${this.path}" ${attributes}${alpha}/>`);
  }
  fill() {
    this.paint(`fill="${this.fillStyle}"`);
  }
  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.paint(
      `fill="none" stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}"${dash}`,
    );
  }
  fillText(text, x, y) {
    const anchor = { right: "end", center: "middle" }[this.textAlign];
    this.elements.push(
      `<text x="${short(x)}" y="${short(y)}" font-size="12" text-anchor="${anchor}" ` +
        `fill="${this.fillStyle}">${text}</text>`,
    );
  }
  drawImage(data, x, y, width, height) {
    this.elements.push(
      `<image href="${data}" x="${short(x)}" y="${short(y)}" width="${short(width)}" ` +
        `height="${short(height)}" preserveAspectRatio="none"/>`,
    );
  }
}

// Pixels with red, green, blue and alpha as the address of a PNG.
function image(pixels, side) {
  const chunk = (kind, content) => {
    const body = Buffer.concat([Buffer.from(kind), content]);
    const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(content.length);
    check.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, check]);
  };
  const header = Buffer.from([0, 0, 0, side, 0, 0, 0, side, 8, 6, 0, 0, 0]);
  const rows = Array.from({ length: side }, (_, row) =>
    Buffer.from([0, ...pixels.slice(4 * side * row, 4 * side * (row + 1))]),
  );
  const png = Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.concat(rows), { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
  return `data:image/png;base64,${png.toString("base64")}`;
}

// -- the picture --------------------------------------------------------------------------------

const SIDE = 300; // of a plane
const GAP = 20;
const TITLE = 20;
const CURVES = 150; // height of a panel of curves
const WHOLE = [2 * SIDE + GAP, 2 * TITLE + SIDE + GAP + CURVES];

function panel(column, row, title, width, height, paint) {
  const context = new Context();
  paint(context);
  const x = column * (SIDE + GAP);
  const y = row * (TITLE + SIDE + GAP);
  return (
    `<text x="${x}" y="${y + 13}" font-size="12" fill="${colours.text}">${title}</text>` +
    `<svg x="${x}" y="${y + TITLE}" width="${width}" height="${height}">` +
    `${context.elements.join("\n")}</svg>`
  );
}

const early = trained(pair(asked), EARLY);
const planes = [0, 1].map((k) =>
  panel(k, 0, `β = ${early.betas[k]}, after ${EARLY} steps`, SIDE, SIDE, (context) =>
    drawing.plane(context, SIDE, SIDE, early, k, colours, image),
  ),
);
const title = `Surest and least sure fifth by step (black: β = 1)`;
const curves = panel(0, 1, title, SIDE, CURVES, (context) =>
  drawing.curves(context, SIDE, CURVES, trained(early, asked.until), [], "fifths", colours),
);
const against = `Given against true probability, β = ${sure.beta}`;
const dots = panel(1, 1, against, SIDE, CURVES, (context) =>
  drawing.calibration(context, SIDE, CURVES, trained(pair(sure), sure.until), false, colours),
);
console.log(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WHOLE.join(" ")}" width="${WHOLE[0]}" ` +
    `height="${WHOLE[1]}" font-family="Noto Sans, system-ui, sans-serif">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n` +
    `${[...planes, curves, dots].join("\n")}\n</svg>`,
);
