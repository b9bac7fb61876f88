/* Two small networks that differ in β alone: the arithmetic. Nothing here draws.
   tests/book/test_twonets.py holds its steps to gdlib.functional.gd_cross_entropy. */
(() => {
  "use strict";

  const SAMPLES = 300; // points to train on
  const BATCH = 30;
  const FRESH_BATCH = 100; // where every step draws new points
  const WIDTH = 16; // units of each of the two hidden layers
  const MOMENTUM = 0.9;
  const DECAY = 1e-4; // of the weights
  const LOST = 0.2; // a sample is lost where its true class has no more than this

  const sigmoid = (logOdds) => 1 / (1 + Math.exp(-logOdds));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // A function that gives the next number from 0 to 1: a multiplicative congruential generator.
  function generator(seed) {
    const MODULUS = 2147483647;
    let state = 1 + ((seed * 69621) % (MODULUS - 1));
    return () => (state = (state * 48271) % MODULUS) / MODULUS;
  }

  const normal = (random) =>
    Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

  // -- the problem: two arms of a spiral, each a mixture of Gaussians ---------------------------

  const SPREAD = 0.28; // standard deviation of each Gaussian
  const CENTRES = [0, Math.PI].map((start) =>
    Array.from({ length: 12 }, (_, i) => {
      const along = (i + 0.5) / 12;
      const angle = start + 1.5 * Math.PI * along;
      const radius = 0.25 + 1.25 * along;
      return [radius * Math.cos(angle), radius * Math.sin(angle)];
    }),
  );

  function draw(count, random) {
    return Array.from({ length: count }, (_, i) => {
      const label = i % 2;
      const [x, y] = CENTRES[label][Math.floor(12 * random())];
      return { x: x + SPREAD * normal(random), y: y + SPREAD * normal(random), label };
    });
  }

  // The true probability of class 1 at a point.
  function truth({ x, y }) {
    const [zero, one] = CENTRES.map((centres) =>
      mean(centres.map(([u, v]) => Math.exp(-((x - u) ** 2 + (y - v) ** 2) / (2 * SPREAD ** 2)))),
    );
    return (one + 1e-300) / (zero + one + 2e-300);
  }

  // -- the loss log(β + e^−s) of the log-odds s of the true class -------------------------------

  // How hard a sample still pulls: the size of the gradient in s.
  const pull = (logOdds, beta) => 1 / (1 + beta * Math.exp(logOdds));

  // The probability of the smallest expected loss where the truth is `t`, and the way back.
  function link(t, beta) {
    const half = Math.log(t / (1 - t)) / 2;
    return sigmoid(half + Math.asinh(Math.sinh(half) / beta));
  }
  function unlink(p, beta) {
    const weight = (q) => q * (1 + (beta - 1) * q);
    return weight(p) / (weight(p) + weight(1 - p));
  }

  // -- the network: 2 inputs, two hidden layers with tanh, the log-odds of class 1 --------------

  function network(random) {
    const sizes = [2 * WIDTH, WIDTH, WIDTH * WIDTH, WIDTH, WIDTH, 1];
    const inputs = [2, 2, WIDTH, WIDTH, WIDTH, WIDTH];
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const parts = (flat, from = 0) => sizes.map((size) => flat.subarray(from, (from += size)));
    const weights = new Float64Array(total);
    const gradient = new Float64Array(total);
    const velocity = new Float64Array(total);
    const [w1, b1, w2, b2, w3, b3] = parts(weights);
    const [gw1, gb1, gw2, gb2, gw3, gb3] = parts(gradient);
    parts(weights).forEach((part, k) => {
      for (let i = 0; i < part.length; i++) part[i] = (2 * random() - 1) / Math.sqrt(inputs[k]);
    });
    const hidden1 = new Float64Array(WIDTH);
    const hidden2 = new Float64Array(WIDTH);
    const back1 = new Float64Array(WIDTH);

    function logit(x, y) {
      for (let j = 0; j < WIDTH; j++) {
        hidden1[j] = Math.tanh(w1[2 * j] * x + w1[2 * j + 1] * y + b1[j]);
      }
      let result = b3[0];
      for (let j = 0; j < WIDTH; j++) {
        let sum = b2[j];
        for (let i = 0; i < WIDTH; i++) sum += w2[j * WIDTH + i] * hidden1[i];
        hidden2[j] = Math.tanh(sum);
        result += w3[j] * hidden2[j];
      }
      return result;
    }

    // Adds the gradient of one sample, whose logit has just been computed and has the gradient `d`.
    function backward(x, y, d) {
      gb3[0] += d;
      back1.fill(0);
      for (let j = 0; j < WIDTH; j++) {
        gw3[j] += d * hidden2[j];
        const d2 = d * w3[j] * (1 - hidden2[j] ** 2);
        gb2[j] += d2;
        for (let i = 0; i < WIDTH; i++) {
          gw2[j * WIDTH + i] += d2 * hidden1[i];
          back1[i] += d2 * w2[j * WIDTH + i];
        }
      }
      for (let j = 0; j < WIDTH; j++) {
        const d1 = back1[j] * (1 - hidden1[j] ** 2);
        gw1[2 * j] += d1 * x;
        gw1[2 * j + 1] += d1 * y;
        gb1[j] += d1;
      }
    }

    // One step of SGD with momentum on the mean loss of a batch.
    function step(batch, beta, rate) {
      gradient.fill(0);
      for (const { x, y, label } of batch) {
        const sign = label ? 1 : -1;
        backward(x, y, (-sign * pull(sign * logit(x, y), beta)) / batch.length);
      }
      for (let k = 0; k < total; k++) {
        velocity[k] = MOMENTUM * velocity[k] + gradient[k] + DECAY * weights[k];
        weights[k] -= rate * velocity[k];
      }
    }

    return { weights, logit, step };
  }

  // -- what is measured of a network ------------------------------------------------------------

  const NEW = draw(160, generator(4242)); // points that no network is trained on
  const TRUTH = NEW.map(truth);

  // How much surer than right, in points: confidence minus the true probability of what is said.
  const excess = (given) =>
    100 * mean(given.map((p, i) => (p > 0.5 ? p - TRUTH[i] : TRUTH[i] - p)));

  function measure(net, beta, points) {
    const logOdds = points.map(({ x, y, label }) => (label ? 1 : -1) * net.logit(x, y));
    const sorted = Float64Array.from(logOdds, sigmoid).sort();
    const fifth = sorted.length / 5;
    const given = NEW.map(({ x, y }) => sigmoid(net.logit(x, y)));
    return {
      logOdds,
      given, // the probability of class 1 at the new points
      least: mean(sorted.subarray(0, fifth)),
      surest: mean(sorted.subarray(-fifth)),
      wrong: logOdds.filter((s) => s <= 0).length,
      lost: sorted.filter((p) => p <= LOST).length,
      excess: excess(given),
      unlinked: excess(given.map((p) => unlink(p, beta))),
    };
  }

  // -- two networks in step: the same initial weights, points and batches; β = 1 and another ------

  function pair({ beta, rate, fresh = false, seed = 1 }) {
    const random = generator(seed);
    const points = draw(SAMPLES, random);
    const betas = [1, beta];
    const nets = betas.map(() => network(generator(1000 + seed)));
    const result = { betas, nets, points, steps: 0, history: [], advance };

    function batch() {
      if (fresh) return draw(FRESH_BATCH, random);
      return Array.from({ length: BATCH }, () => points[Math.floor(SAMPLES * random())]);
    }
    function step() {
      const shared = batch();
      nets.forEach((net, k) => net.step(shared, betas[k], rate));
      result.steps++;
    }
    function record() {
      result.now = nets.map((net, k) => measure(net, betas[k], points));
      result.history.push({ steps: result.steps, kept: result.now });
    }
    // The steps of one frame, few at first, when most happens; then what they led to.
    function advance() {
      const count = result.steps < 100 ? 2 : result.steps < 400 ? 4 : 10;
      for (let k = 0; k < count; k++) step();
      record();
    }

    record();
    return result;
  }

  // A mean over a record and those before it, at most twenty.
  const recent = (history, k, key, last = history.length - 1) =>
    mean(history.slice(Math.max(0, last - 19), last + 1).map(({ kept }) => kept[k][key]));

  globalThis.twoNets = { SAMPLES, LOST, TRUTH, sigmoid, pull, link, unlink, pair, recent };
})();
