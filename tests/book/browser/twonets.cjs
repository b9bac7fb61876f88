// What the figure "Train two networks that differ only in β" computes, without a browser, as JSON:
//   node twonets.cjs steps FOLDER BETA RATE FRESH COUNT
//     the first weights, points and batches, and what COUNT steps make of them
//   node twonets.cjs questions FOLDER SEED...
//     a line for each question and seed: what is said, and the records
// FOLDER is book/_static.
const [mode, folder, ...given] = process.argv.slice(2);
for (const name of ["twonets-arithmetic", "twonets-drawing", "twonets"]) {
  require(`${folder}/${name}.js`);
}
const { QUESTIONS, TRUTH, link, unlink, pair, state } = globalThis.twoNets;
const print = (value) => console.log(JSON.stringify(value));
const numbers = ({ steps, kept }) => ({
  steps,
  kept: kept.map(({ least, surest, wrong, lost }) => ({ least, surest, wrong, lost })),
});

function steps(beta, rate, fresh, count) {
  const run = pair({ beta, rate, fresh });
  const first = run.nets.map((net) => [...net.weights]);
  const batches = [];
  const step = run.nets[0].step;
  run.nets[0].step = (batch, ...rest) => {
    batches.push(batch);
    step(batch, ...rest);
  };
  while (run.steps < count) run.advance();
  const probability = [0.1, 0.5, 0.9];
  print({
    first,
    batches,
    points: run.points,
    steps: run.steps,
    last: run.nets.map((net) => [...net.weights]),
    logOdds: run.now.map((measured) => measured.logOdds),
    kept: numbers(run.history.at(-1)).kept,
    link: probability.map((p) => link(p, beta)),
    unlink: probability.map((p) => unlink(p, beta)),
  });
}

function questions(seeds) {
  for (const seed of seeds) {
    for (const [key, question] of Object.entries(QUESTIONS)) {
      const runs = question.runs.map(({ until, ...set }) => {
        const run = pair({ ...set, seed });
        while (run.steps < until) run.advance();
        return run;
      });
      print({
        key,
        seed,
        look: question.look,
        seen: question.seen(runs),
        state: state(runs[0]),
        runs: runs.map(({ betas, history, now }) => ({
          betas,
          history: history.map(numbers),
          excess: now.map((measured) => measured.excess),
          unlinked: now.map((measured) => measured.unlinked),
          given: now.map((measured) => measured.given),
        })),
        truth: TRUTH,
        curve: TRUTH.map((truth) => link(truth, runs[0].betas[1])),
      });
    }
  }
}

if (mode === "steps") {
  const [beta, rate, fresh, count] = given.map((text) => JSON.parse(text));
  steps(beta, rate, fresh, count);
} else {
  questions(given.map(Number));
}
