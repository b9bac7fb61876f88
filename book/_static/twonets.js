/* Train two networks that differ only in β: what is asked, said and pressed. Every element of the class
   "twonets" becomes the figure. Needs twonets-arithmetic.js and twonets-drawing.js. Nothing moves
   before a button is pressed; where the reader asks for less motion, nothing moves by itself. */
(() => {
  "use strict";

  const { SAMPLES, pair, recent } = twoNets;
  const LISTS = {
    beta: [0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 5, 20],
    rate: [0.003, 0.01, 0.03, 0.1, 0.3, 0.5],
  };
  const END = 4000; // steps, where no question is asked

  // -- what is asked and what is said -----------------------------------------------------------

  const digits = (value) => value.toFixed(1).replace("-", "−");
  const thousands = (value) => value.toLocaleString("en-US");
  const sure = (excess) =>
    `${digits(Math.abs(excess))} points ${excess < 0 ? "less sure" : "surer"} than right`;
  // What β = 1 and the other β came to: `after` so many steps, or on average over the last records.
  const after = (run, steps, key) =>
    run.history.find((record) => record.steps >= steps).kept.map((kept) => kept[key]);
  const settled = (run, key) => run.betas.map((_, k) => Math.round(recent(run.history, k, key)));

  // Each question: the runs that answer it, what to watch, and what was seen in those runs.
  const QUESTIONS = {
    order: {
      title: "Who is learnt first?",
      runs: [{ beta: 0.01, rate: 0.01, until: 1500 }],
      show: "fifths",
      look:
        "Watch the curves: with the small β the surest fifth of the samples rises at once, while " +
        "the least sure fifth first falls, and waits.",
      seen([run]) {
        const early = after(run, 120, "least").map((p) => p.toFixed(2));
        const late = after(run, 1500, "least");
        const wrong = after(run, 1500, "wrong");
        const back =
          late[1] > late[0] - 0.05 ? "it waited, and came back" : "it has not caught up yet";
        return (
          `At step 120 the least sure fifth gave its true class ${early[1]} ` +
          `(β = 1: ${early[0]}). At step 1,500 it gives ${late[1].toFixed(2)} ` +
          `(β = 1: ${late[0].toFixed(2)}): ${back}. ` +
          `Wrong are ${wrong[1]} of ${SAMPLES} (β = 1: ${wrong[0]}).`
        );
      },
    },
    sure: {
      title: "How sure?",
      runs: [{ beta: 0.1, rate: 0.03, fresh: true, until: 3000 }],
      show: "dots",
      look:
        "Watch the dots, new points that no network is trained on: they gather along the curve, " +
        "which was drawn before the training began, and not along the diagonal.",
      seen([run]) {
        const [plain, small] = run.now;
        return (
          `β = 0.1 is ${sure(small.excess)}; β = 1 is ${sure(plain.excess)}. ` +
          `Taken back along the curve (tick “undo it”), β = 0.1 is ${sure(small.unlinked)}.`
        );
      },
    },
    lost: {
      title: "When lost?",
      runs: [0.003, 0.5].map((rate) => ({ beta: 0.001, rate, until: 1500 })),
      show: "wrong",
      look:
        "Watch the red rings, the lost samples, in two trainings: first with short steps " +
        "(learning rate 0.003), then with long ones (0.5).",
      seen([short, long]) {
        const gentle = settled(short, "wrong");
        const rough = settled(long, "wrong");
        const lost = settled(short, "lost");
        const turned =
          gentle[1] < gentle[0] && rough[1] > rough[0]
            ? "The long steps turned the order round."
            : "The order stayed.";
        const caveat =
          lost[1] > lost[0]
            ? ` With short steps, too, it has more lost samples (${lost[1]}; β = 1: ${lost[0]}): ` +
              "that part is the loss, not the step."
            : "";
        return (
          `Over the last 200 short steps β = 0.001 had ${gentle[1]} of ${SAMPLES} wrong ` +
          `(β = 1: ${gentle[0]}); over the last 200 long ones ${rough[1]} (β = 1: ${rough[0]}). ` +
          turned +
          caveat
        );
      },
    },
  };

  const FREE =
    "The same initial weights, the same batches; only β differs. Circles and triangles are the " +
    "two classes. " +
    "Choose a question, or a β and a learning rate.";

  const state = (run) =>
    `After ${thousands(run.steps)} steps: ${run.now
      .map(
        ({ wrong, lost, excess }, k) =>
          `β = ${run.betas[k]} has ${wrong} wrong and ${lost} lost, and is ${sure(excess)}`,
      )
      .join("; ")}.`;

  Object.assign(twoNets, { QUESTIONS, state });
  if (typeof document === "undefined") return; // the tests and the still picture read the above

  // -- the figure on the page -------------------------------------------------------------------

  const CURVES = {
    fifths:
      "Probability of the true class by step: surest fifth above, least sure below; " +
      "in colour the β that is not 1",
    wrong: `Wrong (line) and lost (dotted) of ${SAMPLES} by step, means of 20 records; in colour the β that is not 1`,
  };
  const AGAIN = `. Trained on the same ${SAMPLES} again and again, a network misses the curve`;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const button = (kind, name, text) =>
    `<button type="button" data-${kind}="${name}">${text}</button>`;
  const slider = (name, text) =>
    `<label>${text} <output data-part="${name}-value"></output>
    <input type="range" data-part="${name}" min="0" max="${LISTS[name].length - 1}"></label>`;
  const panel = (name, title) =>
    `<div><p>${title}</p><canvas data-part="${name}" aria-hidden="true"></canvas></div>`;

  const CELLS = "<td></td>".repeat(4);
  const MARKUP = `
    <div class="twonets-bar" role="group" aria-label="Three questions, and training">
      ${Object.keys(QUESTIONS)
        .map((key) => button("question", key, QUESTIONS[key].title))
        .join("")}
      ${button("part", "go", "")} ${button("part", "on", "")}
    </div>
    <div class="twonets-said" role="status" aria-atomic="false">
      <p data-part="look"></p><p data-part="seen"></p>
    </div>
    <div class="twonets-grid">
      ${panel("plane0", "<b>β = 1</b>, cross-entropy")}
      ${panel("plane1", '<b data-part="name"></b>')}
      ${panel("curves", '<span data-part="title"></span>')}
      ${panel(
        "dots",
        `Probability given against the true one, new points<span data-part="aside"></span>
        <label><input type="checkbox" data-part="undo"> undo it</label>`,
      )}
    </div>
    <div class="twonets-bar">
      ${slider("beta", "β =")} ${slider("rate", "learning rate")}
      ${button("part", "other", "Other points")}
    </div>
    <table>
      <thead><tr><th scope="col">after <span data-part="steps"></span> steps</th>
        <th scope="col">wrong of ${SAMPLES}</th><th scope="col">lost</th>
        <th scope="col">surer than right, points</th><th scope="col">after “undo it”</th>
      </tr></thead>
      <tbody><tr><th scope="row">β = 1</th>${CELLS}</tr>
        <tr><th scope="row" data-part="row"></th>${CELLS}</tr></tbody>
    </table>`;

  function build(root) {
    const still = document.querySelector(`#${root.dataset.instead} img`);
    if (still) {
      const picture = still.closest("a") || still;
      still.loading = "eager"; // for paper
      picture.classList.add("twonets-still");
      picture.before(root);
    }
    root.innerHTML = MARKUP;
    root.classList.add("live");
    const part = (name) => root.querySelector(`[data-part=${name}]`);
    const questions = [...root.querySelectorAll("[data-question]")];
    const small = document.createElement("canvas");
    const set = { beta: 0.1, rate: 0.03, seed: 1 }; // what the next run is
    let question; // one of QUESTIONS, or none
    let done; // the runs of the question that have ended
    let run;
    let running;
    let pending; // the frame that was asked for

    const show = () => (question?.show === "wrong" ? "wrong" : "fifths");
    const end = () => question?.runs[done.length]?.until ?? END;
    const nextStop = () => Math.min(Math.max(10, 2 * run.steps), end());
    const ended = () => (question ? done.length === question.runs.length : run.steps >= END);

    // -- drawing --------------------------------------------------------------------------------

    function image(pixels, side) {
      small.width = small.height = side;
      small.getContext("2d").putImageData(new ImageData(pixels, side, side), 0, 0);
      return small;
    }

    // A context of this panel in pixels of the page, with its width and its height.
    function prepare(name) {
      const canvas = part(name);
      const { clientWidth, clientHeight } = canvas;
      const scale = Math.min(devicePixelRatio, 2);
      const width = Math.round(scale * clientWidth);
      if (canvas.width !== width) {
        canvas.width = width;
        canvas.height = Math.round(scale * clientHeight);
      }
      const context = canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      return [context, clientWidth, clientHeight];
    }

    function draw() {
      const { COLOURS, plane, curves, calibration } = twoNets.drawing;
      const style = getComputedStyle(root);
      const colours = { text: style.color };
      for (const name of COLOURS) {
        colours[name] = style.getPropertyValue(`--twonets-${name}`).trim();
      }
      for (const k of [0, 1]) plane(...prepare(`plane${k}`), run, k, colours, image);
      curves(...prepare("curves"), run, done.filter((other) => other !== run), show(), colours);
      calibration(...prepare("dots"), run, part("undo").checked, colours);
      part("steps").textContent = thousands(run.steps);
      const cells = run.now.flatMap(({ wrong, lost, excess, unlinked }) => [
        wrong,
        lost,
        digits(excess),
        digits(unlinked),
      ]);
      root.querySelectorAll("td").forEach((cell, i) => (cell.textContent = cells[i]));
    }

    // -- training -------------------------------------------------------------------------------

    // The next run: of the question, or as the reader has set it.
    function begin() {
      const planned = question?.runs[done.length];
      Object.assign(set, planned && { beta: planned.beta, rate: planned.rate });
      run = pair({ ...set, ...planned });
      for (const name in LISTS) {
        part(name).value = LISTS[name].indexOf(set[name]);
        part(name).setAttribute("aria-valuetext", set[name]);
        part(`${name}-value`).textContent = set[name];
      }
      part("name").textContent = part("row").textContent = `β = ${set.beta}`;
      part("title").textContent = CURVES[show()] + (done.length ? "; pale: the run before" : "");
      part("aside").textContent = planned?.fresh ? "" : AGAIN;
    }

    function start(asked) {
      question = asked;
      done = [];
      root.dataset.asked = question?.show ?? "";
      part("undo").checked = false;
      part("look").textContent = question?.look ?? FREE;
      begin();
      rest("");
    }

    // One frame of steps; a run that has ended makes room for the next one of its question.
    function advance() {
      run.advance();
      if (run.steps < end()) return;
      if (question) done.push(run);
      if (!ended()) begin();
    }

    function rest(seen) {
      running = false;
      seen ??= question && ended() ? question.seen(done) : state(run);
      part("seen").textContent = seen.replaceAll(" = ", "\u00a0=\u00a0"); // no line ends there
      buttons();
      draw();
    }

    function buttons() {
      part("go").textContent = running ? "Pause" : "Train";
      part("go").hidden = calm.matches;
      part("on").textContent = ended() ? "From the start" : `To step ${thousands(nextStop())}`;
      for (const one of questions) {
        one.setAttribute("aria-pressed", question === QUESTIONS[one.dataset.question]);
      }
    }

    function frame() {
      if (!running) return;
      advance();
      if (ended()) return rest();
      draw();
      pending = requestAnimationFrame(frame);
    }

    function train() {
      if (ended()) start(question);
      running = true;
      part("seen").textContent = "";
      buttons();
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(frame);
    }

    function onward() {
      if (ended()) return start(question);
      const [here, stop] = [run, nextStop()];
      do advance();
      while (run === here && run.steps < stop);
      rest();
    }

    for (const one of questions) {
      one.onclick = () => {
        start(QUESTIONS[one.dataset.question]);
        if (!calm.matches) train();
      };
    }
    part("go").onclick = () => (running ? rest() : train());
    part("on").onclick = onward;
    part("other").onclick = () => {
      set.seed++;
      start(question);
    };
    for (const name in LISTS) {
      part(name).oninput = (event) => {
        set[name] = LISTS[name][event.target.value];
        start();
      };
    }
    part("undo").onchange = draw;
    calm.onchange = () => rest();

    start();
    new ResizeObserver(draw).observe(root);
    new MutationObserver(draw).observe(document.documentElement, { attributes: true });
  }

  document.querySelectorAll(".twonets").forEach(build);
})();
