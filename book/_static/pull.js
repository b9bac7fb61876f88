/* A sample on the axis of its log-odds: drag it, and the arrow shows how hard it still pulls. A flag
   stands at −log β, where half of the pull is gone. Every element of the class "pull" is one. */
(() => {
  "use strict";

  const BETAS = [0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 5, 20];
  const END = 9; // the axis goes from −END to END
  const HEIGHT = 150;
  const AXIS = 118; // of the axis, from above
  const ARROW = 4.5; // length of a pull of 1, in log-odds

  const pull = (logOdds, beta) => 1 / (1 + beta * Math.exp(logOdds));
  const minus = (text) => text.replace("-", "−");
  const bounded = (value) =>
    // two digits, and never a rounded 0 or 1
    value < 0.005 ? "< 0.01" : value > 0.995 ? "> 0.99" : value.toFixed(2);
  const tone = (beta) => (beta < 1 ? "small" : beta > 1 ? "large" : "one");

  function sentence(logOdds, beta) {
    const probability = bounded(1 / (1 + Math.exp(-logOdds)));
    const each = beta === 1 ? "" : `; with β = 1 it would pull with ${bounded(pull(logOdds, 1))}`;
    return (
      `At log-odds ${minus(logOdds.toFixed(1))} the true class has the probability ` +
      `${probability}. ` +
      `With β = ${beta} the sample pulls with ${bounded(pull(logOdds, beta))}${each}. ` +
      `The flag stands at ${minus((-Math.log(beta)).toFixed(1))}.`
    );
  }

  function picture(width, logOdds, beta) {
    const at = (value) => 10 + ((width - 20) * (value + END)) / (2 * END);
    const up = (strength) => AXIS - 90 * strength;
    const curve = (factor, name) => {
      const places = Array.from({ length: 121 }, (_, i) => (END * (i - 60)) / 60).map(
        (s) => `${at(s).toFixed(1)} ${up(pull(s, factor)).toFixed(1)}`,
      );
      return `<path class="${name}" d="M${places.join("L")}"/>`;
    };
    const ticks = [-8, -4, 0, 4, 8].map(
      (s) => `<text x="${at(s)}" y="${AXIS + 22}" text-anchor="middle">${minus(String(s))}</text>`,
    );
    const [here, flag] = [at(logOdds), at(-Math.log(beta))];
    const tip = at(logOdds + ARROW * pull(logOdds, beta));
    const head = Math.min(9, tip - here);
    const frame = `viewBox="0 0 ${width} ${HEIGHT}" height="${HEIGHT}"`;
    return `<svg ${frame} class="${tone(beta)}" aria-hidden="true">
      ${ticks.join("")}<path class="axis" d="M10 ${AXIS}H${width - 10}"/>
      ${curve(1, "reference")}${curve(beta, "curve")}
      <path class="flag" d="M${flag} ${AXIS}V${up(1)}l14 6l-14 6"/>
      <path class="arrow" d="M${here} ${AXIS}H${tip}m${-head} -6l${head} 6l${-head} 6"/>
      <circle r="9" cx="${here}" cy="${AXIS}"/></svg>`;
  }

  function build(root, index) {
    const name = `pull-${index}`;
    root.innerHTML = `
      <div class="pull-controls">
        <label for="${name}-beta">β = <output></output></label>
        <input type="range" id="${name}-beta" min="0" max="${BETAS.length - 1}" value="3">
        <label for="${name}-odds">log-odds <output></output></label>
        <input type="range" id="${name}-odds" min="-80" max="80" value="22">
      </div>
      <div class="pull-picture"></div><p role="status"></p>`;
    const [beta, odds] = root.querySelectorAll("input");
    const [shownBeta, shownOdds] = root.querySelectorAll("output");
    const place = root.querySelector(".pull-picture");
    const text = root.querySelector("p");
    let timer;

    function draw(wait = 150) {
      const [factor, logOdds] = [BETAS[beta.value], odds.value / 10];
      shownBeta.textContent = factor;
      shownOdds.textContent = minus(logOdds.toFixed(1));
      beta.setAttribute("aria-valuetext", factor);
      odds.setAttribute("aria-valuetext", shownOdds.textContent);
      place.innerHTML = picture(Math.max(place.clientWidth, 200), logOdds, factor);
      clearTimeout(timer); // a screen reader is told when the slider rests
      const said = sentence(logOdds, factor).replace(/ ([=<>]) /g, "\u00a0$1\u00a0");
      timer = setTimeout(() => (text.textContent = said), wait);
    }

    function drag(event) {
      if (!event.buttons) return;
      const box = place.getBoundingClientRect();
      const along = (event.clientX - box.left - 10) / (box.width - 20);
      odds.value = 10 * END * (2 * along - 1);
      draw();
    }

    beta.oninput = odds.oninput = () => draw();
    place.onpointerdown = (event) => {
      place.setPointerCapture(event.pointerId);
      drag(event);
    };
    place.onpointermove = drag;
    new ResizeObserver(() => draw(0)).observe(root);
  }

  document.querySelectorAll(".pull").forEach(build);
})();
