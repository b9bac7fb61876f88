/* The fifths of the samples, epoch by epoch, as they were recorded: a row for each fifth, in it a
   mark for each β at its mean confidence. Every element of the class "fifths" is one; its JSON is
   from study.figures.fifths. Nothing moves by itself. */
(() => {
  "use strict";

  const ROW = 34;
  const LEFT = 76;
  const RIGHT = 14;
  const NAMES = ["hardest", "2", "3", "4", "easiest"];
  const tone = (beta) => (beta < 1 ? "small" : beta > 1 ? "large" : "one");
  // a form for each β, so that they can be told apart without colour
  const FORMS = [
    "M-6 0L0 -6L6 0L0 6Z",
    "M-5 -5H5V5H-5Z",
    "M-6 5H6L0 -6Z",
    "M-6 -5H6L0 6Z",
    "M-5 -2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
  ];
  const form = (index, beta) =>
    beta === 1
      ? `<circle r="6"/>`
      : `<path d="${FORMS[index % FORMS.length]}"/>`;

  function picture(width, data, epoch) {
    const at = (confidence) => LEFT + (width - LEFT - RIGHT) * confidence;
    const bottom = ROW * NAMES.length + 6;
    const ticks = [0, 0.25, 0.5, 0.75, 1].map(
      (tick) =>
        `<path class="grid" d="M${at(tick)} 4V${bottom}"/>` +
        `<text x="${at(tick)}" y="${bottom + 18}" text-anchor="middle">${tick}</text>`,
    );
    const rows = NAMES.map((name, row) => {
      const y = ROW * (NAMES.length - 1 - row) + ROW / 2 + 4; // the easiest fifth is at the top
      const marks = data.betas.map((beta, index) => {
        const x = at(data.confidence[index][row][epoch]).toFixed(1);
        return `<g class="${tone(beta)}" transform="translate(${x} ${y})">${form(index, beta)}</g>`;
      });
      return `<text x="${LEFT - 12}" y="${y + 5}" text-anchor="end">${name}</text>${marks.join("")}`;
    });
    const height = bottom + 26;
    return `<svg viewBox="0 0 ${width} ${height}" height="${height}" aria-hidden="true">
      ${ticks.join("")}${rows.join("")}</svg>`;
  }

  function sentence(data, epoch) {
    const smallest = data.betas.indexOf(Math.min(...data.betas));
    const one = data.betas.indexOf(1);
    const last = NAMES.length - 1;
    const said = (index, row) => data.confidence[index][row][epoch].toFixed(2);
    const number = data.epochs[epoch];
    return (
      `After ${number} ${number === 1 ? "epoch" : "epochs"} the easiest fifth has the confidence ` +
      `${said(smallest, last)} with β = ${data.betas[smallest]}, and ${said(one, last)} with ` +
      `β = 1. The hardest fifth has ${said(smallest, 0)} and ${said(one, 0)}.`
    ).replace(/ = /g, "\u00a0=\u00a0");
  }

  function build(root, number) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const name = `fifths-${number}`;
    const key = data.betas.map(
      (beta, index) =>
        `<span><svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true">` +
        `<g class="${tone(beta)}">${form(index, beta)}</g></svg> β\u00a0=\u00a0${beta}</span>`,
    );
    root.innerHTML = `
      <div class="fifths-controls">
        <label for="${name}">After epoch <output></output></label>
        <input type="range" id="${name}" min="0" max="${data.epochs.length - 1}" value="1">
      </div>
      <p class="fifths-key">${key.join(" ")}</p>
      <p class="fifths-title">Mean confidence of each fifth of the samples</p>
      <div class="fifths-picture"></div><p class="fifths-text" role="status"></p>`;
    const slider = root.querySelector("input");
    const place = root.querySelector(".fifths-picture");
    const text = root.querySelector(".fifths-text");
    let timer;

    function draw(wait = 150) {
      const epoch = Number(slider.value);
      root.querySelector("output").textContent = data.epochs[epoch];
      slider.setAttribute("aria-valuetext", `epoch ${data.epochs[epoch]}`);
      place.innerHTML = picture(Math.max(place.clientWidth, 260), data, epoch);
      clearTimeout(timer); // a screen reader is told when the slider rests
      timer = setTimeout(() => (text.textContent = sentence(data, epoch)), wait);
    }

    slider.oninput = () => draw();
    new ResizeObserver(() => draw(0)).observe(root);
  }

  document.querySelectorAll(".fifths").forEach(build);
})();
