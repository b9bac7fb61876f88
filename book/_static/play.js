/* The figure to play with: a slider for β moves two small panels and a sentence. Every element with the class "play" becomes one;
   data-panels names the panels to draw. Nothing is animated. */
(() => {
  "use strict";

  const BETAS = [-3, -2, -1, 0, 1].flatMap((decade) =>
    [1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8].map((step) => Number((step * 10 ** decade).toPrecision(3)))).filter((beta) => beta <= 50);
  const START = 0.1;
  const MINUS = "\u2212";

  const gradient = (p, beta) => (1 - p) / (1 + (beta - 1) * p);
  const confidence = (truth, beta) => {  // the link for two classes, from the log-odds of the truth to those of the minimiser
    if (truth >= 1) return 1;
    const odds = Math.log(truth / (1 - truth)) / 2;
    return 1 / (1 + Math.exp(-(odds + Math.asinh(Math.sinh(odds) / beta))));
  };
  const number = (value, digits) => Number(value.toFixed(digits)).toString().replace("-", MINUS);
  // What would be rounded to the end of its range is given as a bound.
  const above = (value, digits, end) =>
    (Number(value.toFixed(digits)) === 0 ? `< ${end}` : number(value, digits));
  const below = (value, digits, end) =>
    (Number(value.toFixed(digits)) === 100 ? `> ${end}` : number(value, digits));
  const tone = (beta) => (beta < 1 ? "small" : beta > 1 ? "large" : "one");
  // A panel: axes with few ticks, and a body that is given functions from numbers to pixels.
  function panel(width, {x, y, body}) {
    const height = Math.round(Math.min(190, Math.max(120, 0.55 * width)));
    const [left, right, top, bottom] = [36, width - 13, 8, height - 20];
    const atX = (value) => left + (right - left) * x.place(value);
    const atY = (value) => bottom - (bottom - top) * (value - y.from) / (y.to - y.from);
    const every = x.ticks.length > 4 && width < 240 ? 2 : 1;
    const ticks = x.ticks.filter((_, index) => index % every === 0).map((tick) => `<text x="${atX(tick)}" y="${height - 5}" text-anchor="middle">${x.text(tick)}</text>`)
      .concat(y.ticks.map((tick) => `<path class="grid" d="M${left} ${atY(tick)}H${right}"/><text x="${left - 5}" y="${atY(tick) + 4}" text-anchor="end">${number(tick, 2)}</text>`));
    return `<svg viewBox="0 0 ${width} ${height}" height="${height}" aria-hidden="true">${ticks.join("")}<path class="axis" d="M${left} ${top}V${bottom}H${right}"/>${body(atX, atY, top, bottom)}</svg>`;
  }

  const curve = (f, from, to, atX, atY, kind) => {
    const points = Array.from({length: 121}, (_, i) => from + (to - from) * i / 120);
    return `<path class="curve ${kind}" d="M${points.map((p) => `${atX(p).toFixed(1)} ${atY(f(p)).toFixed(1)}`).join("L")}"/>`;
  };

  const PANELS = {
    gradient: {
      title: "Gradient, against the probability of the true class",
      draw: (width, {beta}) => panel(width, {
        x: {place: (p) => p, ticks: [0, 0.5, 1], text: String},
        y: {from: 0, to: 1, ticks: [0, 0.5, 1]},
        body: (atX, atY) => curve((p) => gradient(p, 1), 0, 1, atX, atY, "reference") + curve((p) => gradient(p, beta), 0, 1, atX, atY, tone(beta))
          + `<circle class="${tone(beta)}" r="4" cx="${atX(0.9)}" cy="${atY(gradient(0.9, beta))}"/>`,
      }),
    },
    link: {
      title: "Confidence that minimises the loss, against the true probability, %",
      draw: (width, {beta}) => panel(width, {
        x: {place: (p) => 2 * p - 1, ticks: [0.5, 0.75, 1], text: (p) => 100 * p},
        y: {from: 50, to: 100, ticks: [50, 75, 100]},
        body: (atX, atY) => curve((p) => 100 * p, 0.5, 1, atX, atY, "reference") + curve((p) => 100 * confidence(p, beta), 0.5, 1, atX, atY, tone(beta))
          + `<circle class="${tone(beta)}" r="4" cx="${atX(0.8)}" cy="${atY(100 * confidence(0.8, beta))}"/>`,
      }),
    },
  };

  function sentence({beta}, panels) {
    const said = [];
    if (panels.includes("gradient")) said.push(`A sample with probability 0.9 of its true class has the gradient ${above(gradient(0.9, beta), 2, 0.01)}; with β = 1 it is 0.1.`);
    if (panels.includes("link")) said.push(`Where a class is true with probability 80 %, the loss is smallest at a confidence of ${below(100 * confidence(0.8, beta), 1, 99.9)} % (two classes).`);
    return said.join(" ").replace(/ ([=<>]) /g, "\u00a0$1\u00a0").replaceAll(" %", "\u00a0%");  // no line ends there
  }

  function build(root, index) {
    const panels = (root.dataset.panels || "gradient link").split(" ");
    const state = {beta: START};
    const name = `play-${index}`;
    root.innerHTML = `<div class="play-controls">
      <label for="${name}-beta">β = <output for="${name}-beta">${START}</output></label>
      <input type="range" id="${name}-beta" min="0" max="${BETAS.length - 1}" step="1" value="${BETAS.indexOf(START)}"></div>
      <div class="play-panels">${panels.map((key) => `<div><p>${PANELS[key].title}</p><div class="play-panel" data-panel="${key}"></div></div>`).join("")}</div>
      <p class="play-text" role="status"></p>`;
    const slider = root.querySelector("input"), text = root.querySelector(".play-text");
    let timer;

    function draw() {
      root.querySelector("output").textContent = state.beta;
      slider.setAttribute("aria-valuetext", `β = ${state.beta}`);
      root.querySelectorAll(".play-panel").forEach((place) => { place.innerHTML = PANELS[place.dataset.panel].draw(Math.max(place.clientWidth, 120), state); });
      clearTimeout(timer);  // a screen reader is told when the slider rests
      timer = setTimeout(() => { text.textContent = sentence(state, panels); }, 150);
    }

    slider.addEventListener("input", () => { state.beta = BETAS[slider.value]; draw(); });
    let width = 0;
    new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; draw(); } }).observe(root);
    text.textContent = sentence(state, panels);
  }

  document.querySelectorAll(".play").forEach(build);
})();
