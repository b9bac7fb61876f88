/* Two small networks that differ in β alone: the drawing. Every function draws one state into a
   canvas context; book/tools/draw_twonets.mjs gives them one that writes SVG. */
(() => {
  "use strict";

  const { SAMPLES, LOST, TRUTH, sigmoid, pull, link, unlink, recent } = twoNets;
  const GRID = 41; // values of a network across its plane
  const REACH = 2.15; // the plane goes from −REACH to REACH
  const GLOWS = 5; // steps of brightness
  const LEFT = 30; // room for the numbers beside an axis
  const COLOURS = ["zero", "one", "small", "large", "lost"]; // and `text`

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const tone = (beta, colours) =>
    beta < 1 ? colours.small : beta > 1 ? colours.large : colours.text;

  // -- the plane of the samples -----------------------------------------------------------------

  // Log-odds of class 1 on a grid, row by row from the top.
  function field(net) {
    const values = new Float64Array(GRID * GRID);
    const place = (k) => -REACH + (2 * REACH * k) / (GRID - 1);
    for (let row = 0; row < GRID; row++) {
      for (let column = 0; column < GRID; column++) {
        values[row * GRID + column] = net.logit(place(column), -place(row));
      }
    }
    return values;
  }

  // Red, green, blue and alpha for each value: the colour of the likelier class, paler near 1/2.
  function shade(values, colours) {
    const [zero, one] = [colours.zero, colours.one].map(channels);
    const pixels = new Uint8ClampedArray(4 * values.length);
    values.forEach((logOdds, k) => {
      const alpha = 75 * Math.abs(2 * sigmoid(logOdds) - 1);
      pixels.set([...(logOdds > 0 ? one : zero), alpha], 4 * k);
    });
    return pixels;
  }

  // The line on which the values of a grid equal `level`: a piece in each square that it crosses, or
  // in every second one, as on a chessboard, for a dashed line.
  function contour(context, values, level, cell, dashed) {
    context.beginPath();
    for (let row = 0; row < GRID - 1; row++) {
      for (let column = 0; column < GRID - 1; column++) {
        if (dashed && (row + column) % 2) continue;
        const corners = [
          [0, 0],
          [1, 0],
          [1, 1],
          [0, 1],
        ].map(([x, y]) => ({
          x: column + x,
          y: row + y,
          over: values[(row + y) * GRID + column + x] - level,
        }));
        let pen = "moveTo";
        corners.forEach((from, k) => {
          const to = corners[(k + 1) % 4];
          if (from.over > 0 === to.over > 0) return;
          const along = from.over / (from.over - to.over);
          const x = from.x + along * (to.x - from.x);
          const y = from.y + along * (to.y - from.y);
          context[pen](cell * x, cell * y);
          pen = pen === "moveTo" ? "lineTo" : "moveTo";
        });
      }
    }
    context.stroke();
  }

  function marker(context, label, x, y, radius) {
    if (label) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    } else {
      context.moveTo(x, y - 1.3 * radius);
      context.lineTo(x + 1.15 * radius, y + 0.8 * radius);
      context.lineTo(x - 1.15 * radius, y + 0.8 * radius);
      context.closePath();
    }
  }

  // Samples that still pull are large and bright, with a halo; those that are done small and pale.
  function samples(context, size, points, logOdds, beta, colours) {
    const place = (value) => ((value + REACH) / (2 * REACH)) * size;
    const scale = Math.max(0.6, Math.min(1, size / 300)); // of the marks
    const groups = Array.from({ length: 2 * (GLOWS + 1) }, () => []);
    const lost = [];
    points.forEach(({ x, y, label }, i) => {
      const strength = pull(logOdds[i], beta);
      const spot = { x: place(x), y: size - place(y), label, strength };
      groups[2 * Math.round(GLOWS * strength) + label].push(spot);
      if (sigmoid(logOdds[i]) <= LOST) lost.push(spot);
    });
    groups.forEach((group, k) => {
      const glow = Math.floor(k / 2) / GLOWS;
      context.fillStyle = k % 2 ? colours.one : colours.zero;
      for (const [alpha, factor] of [
        [0.2 * glow, 2.2],
        [0.3 + 0.7 * glow, 1],
      ]) {
        if (!group.length || !alpha) continue;
        context.globalAlpha = alpha;
        context.beginPath();
        for (const { x, y, label, strength } of group) {
          marker(context, label, x, y, scale * factor * (1.3 + 2.2 * Math.sqrt(strength)));
        }
        context.fill();
      }
    });
    context.globalAlpha = 1;
    context.strokeStyle = colours.lost;
    context.lineWidth = 1.6;
    context.beginPath();
    for (const { x, y } of lost) marker(context, 1, x, y, 6 * scale);
    context.stroke();
  }

  // `image` makes of pixels what `context.drawImage` takes.
  function plane(context, size, height, { nets, betas, now, points }, k, colours, image) {
    const values = field(nets[k]);
    const beta = betas[k];
    const cell = size / (GRID - 1);
    const shaded = image(shade(values, colours), GRID);
    context.clearRect(0, 0, size, size);
    context.drawImage(shaded, -cell / 2, -cell / 2, size + cell, size + cell);
    context.strokeStyle = colours.text;
    if (beta !== 1) {
      context.lineWidth = 1;
      for (const sign of [-1, 1]) contour(context, values, sign * Math.log(beta), cell, true);
    }
    context.lineWidth = 1.6;
    contour(context, values, 0, cell);
    samples(context, size, points, now[k].logOdds, beta, colours);
  }

  // -- curves -----------------------------------------------------------------------------------

  // Axes with few ticks; returns the functions from numbers to pixels.
  function axes(context, width, height, { x, y, xTicks, yTicks }, colours) {
    const atX = (value) => LEFT + (width - LEFT - 10) * x(value);
    const atY = (value) => height - 20 - (height - 28) * y(value);
    context.clearRect(0, 0, width, height);
    context.font = "12px sans-serif";
    context.fillStyle = context.strokeStyle = colours.text;
    context.lineWidth = 0.3;
    context.textAlign = "right";
    for (const tick of yTicks) {
      polyline(context, [
        [LEFT, atY(tick)],
        [width - 10, atY(tick)],
      ]);
      context.fillText(tick, LEFT - 6, atY(tick) + 4);
    }
    context.textAlign = "center";
    for (const tick of xTicks) context.fillText(tick, atX(tick), height - 4);
    return { atX, atY };
  }

  function polyline(context, places) {
    context.beginPath();
    places.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }

  // Against the number of steps: the surest and the least sure fifth, or what is wrong and lost.
  // The runs of a question before this one stay, pale.
  function curves(context, width, height, run, before, show, colours) {
    const fifths = show === "fifths";
    const top = fifths ? 1 : SAMPLES / 2;
    const scales = {
      x: (steps) => Math.log10(steps / 10) / Math.log10(400),
      y: (value) => Math.min(value, top) / top,
      xTicks: [10, 100, 1000],
      yTicks: [0, top / 2, top],
    };
    const { atX, atY } = axes(context, width, height, scales, colours);
    context.lineWidth = 2.2;
    for (const { betas, history } of [...before, run]) {
      context.globalAlpha = history === run.history ? 1 : 0.35;
      betas.forEach((beta, k) => {
        context.strokeStyle = tone(beta, colours);
        for (const key of fifths ? ["surest", "least"] : ["wrong", "lost"]) {
          const places = history.map(({ steps, kept }, i) => [
            atX(Math.max(10, steps)),
            atY(fifths ? kept[k][key] : recent(history, k, key, i)),
          ]);
          context.setLineDash(key === "lost" ? [2, 3] : []);
          polyline(context, places.slice(5)); // from step 10
        }
      });
    }
    context.setLineDash([]);
  }

  // The probability that a network gives, against the true one, and the curve that it should meet.
  function calibration(context, width, height, { betas, now }, undo, colours) {
    const beta = betas[1];
    const same = (p) => p;
    const ticks = [0, 0.5, 1];
    const scales = { x: same, y: same, xTicks: ticks, yTicks: ticks };
    const { atX, atY } = axes(context, width, height, scales, colours);
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    polyline(context, [
      [atX(0), atY(0)],
      [atX(1), atY(1)],
    ]);
    context.setLineDash([]);
    const colour = tone(beta, colours);
    if (!undo) {
      context.strokeStyle = colour;
      context.lineWidth = 2.2;
      context.globalAlpha = 0.5;
      const t = Array.from({ length: 99 }, (_, i) => (i + 1) / 100);
      polyline(
        context,
        t.map((truth) => [atX(truth), atY(link(truth, beta))]),
      );
      context.globalAlpha = 1;
    }
    context.fillStyle = colour;
    context.beginPath();
    now[1].given.forEach((p, i) => {
      marker(context, 1, atX(TRUTH[i]), atY(undo ? unlink(p, beta) : p), 2.2);
    });
    context.fill();
  }

  twoNets.drawing = { COLOURS, plane, curves, calibration };
})();
