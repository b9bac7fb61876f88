// Trains the two networks of one page with the keyboard and prints what happened as JSON:
//   node twonets.mjs CHROMIUM FILE
// No mouse, no network; once as it is, once for a reader who asks for less motion, once without
// scripts, once on paper.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const address = pathToFileURL(file).href;
const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--allow-file-access-from-files"],
});
const result = { console: [], requests: [], axe: [], over: {}, said: {}, smallest: {} };
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function open(prepare = async () => {}) {
  const tab = await browser.newPage();
  tab.on("console", (message) => result.console.push(message.text()));
  tab.on("pageerror", (error) => result.console.push(String(error)));
  tab.on("request", (request) => result.requests.push(new URL(request.url()).protocol));
  await tab.evaluateOnNewDocument(() => {
    globalThis.frames_ms = []; // how long the script works in each frame
    const asked = globalThis.requestAnimationFrame.bind(globalThis);
    globalThis.requestAnimationFrame = (callback) =>
      asked((time) => {
        const start = performance.now();
        callback(time);
        frames_ms.push(performance.now() - start);
      });
  });
  await tab.setViewport({ width: 1280, height: 900 });
  await prepare(tab);
  await tab.goto(address, { waitUntil: "networkidle0" });
  return tab;
}

const look = (tab) =>
  tab.evaluate(() => {
    const part = (name) => document.querySelector(`[data-part=${name}]`);
    const text = (element) => element.textContent.replaceAll("\u00a0", " ");
    return {
      look: text(part("look")),
      seen: text(part("seen")),
      title: text(part("title")),
      aside: text(part("aside")),
      go: part("go").hidden ? "" : text(part("go")),
      on: text(part("on")),
      steps: text(part("steps")),
      beta: text(part("beta-value")),
      spoken: part("beta").getAttribute("aria-valuetext"),
      rate: text(part("rate-value")),
      cells: [...document.querySelectorAll("td")].map(text),
      pressed: [...document.querySelectorAll("[aria-pressed=true]")].map(text),
      focus: document.activeElement.dataset.part ?? document.activeElement.dataset.question ?? "",
      drawing: [...document.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL()).join(),
    };
  });
const without = ({ drawing, ...rest }) => rest;

const rested = (tab) =>
  tab.waitForFunction(
    () =>
      document.querySelector("[data-part=go]").textContent === "Train" &&
      document.querySelector("[data-part=seen]").textContent,
    { timeout: 120000, polling: 100 },
  );

const violations = (tab) =>
  tab.evaluate(async () =>
    (await axe.run()).violations.flatMap((rule) =>
      rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}`),
    ),
  );

// -- with the keyboard, from the top of the page --------------------------------------------------

const tab = await open();
await tab.evaluate(axe);
const [first, later] = [await look(tab), (await wait(600), await look(tab))];
result.start = without(first);
result.still =
  first.drawing === later.drawing && (await tab.evaluate(() => frames_ms.length)) === 0;
result.path = [];
result.milliseconds = {};
for (const key of ["order", "sure", "lost"]) {
  await tab.keyboard.press("Tab");
  await tab.evaluate(() => (frames_ms.length = 0));
  await tab.keyboard.press("Enter");
  await wait(300);
  const during = without(await look(tab));
  result.path.push(during.focus);
  if (key === "order") result.during = during;
  await rested(tab);
  result.said[key] = without(await look(tab));
  result.milliseconds[key] = await tab.evaluate(
    () => frames_ms.sort((a, b) => a - b)[frames_ms.length >> 1],
  );
}
for (const name of ["go", "on", "undo", "beta", "rate", "other"]) {
  await tab.keyboard.press("Tab");
  result.path.push(await tab.evaluate(() => document.activeElement.dataset.part));
}
const bent = await look(tab);
await tab.focus("[data-part=undo]");
await tab.keyboard.press("Space");
result.undone = bent.drawing !== (await look(tab)).drawing;

// the slider, single steps, other points, a pause
await tab.focus("[data-part=beta]");
await tab.keyboard.press("End");
result.slid = without(await look(tab));
await tab.focus("[data-part=on]");
await tab.keyboard.press("Enter");
await tab.keyboard.press("Enter");
result.stepped = without(await look(tab));
await tab.focus("[data-part=other]");
await tab.keyboard.press("Enter");
result.other = without(await look(tab));
await tab.focus("[data-part=go]");
await tab.keyboard.press("Enter");
await wait(300);
await tab.keyboard.press("Enter");
const paused = await look(tab);
await wait(300);
result.paused = { ...without(paused), still: paused.drawing === (await look(tab)).drawing };

for (const theme of ["light", "dark"]) {
  const before = await look(tab);
  await tab.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
  await wait(100);
  if (theme === "dark") result.redrawn = before.drawing !== (await look(tab)).drawing;
  for (const width of [1280, 390]) {
    await tab.setViewport({ width, height: 844 });
    await wait(200);
    result.axe.push(...(await violations(tab)).map((text) => `${width} ${theme} ${text}`));
    result.over[width] = await tab.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    result.smallest[width] = await tab.evaluate(() =>
      Math.min(
        ...[...document.querySelectorAll(".twonets button, .twonets input[type=range]")].map(
          (control) => control.getBoundingClientRect().height,
        ),
      ),
    );
  }
}
const visible = (tab) =>
  tab.evaluate(() => ({
    figure: document.querySelector(".twonets").getBoundingClientRect().height > 100,
    picture: document.querySelector("#fig-twonets img").getBoundingClientRect().height > 100,
  }));
result.screen = await visible(tab);
await tab.emulateMediaType("print");
result.paper = await visible(tab);
await tab.close();

// -- less motion, and no script -------------------------------------------------------------------

const calm = await open((tab) =>
  tab.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]),
);
await calm.focus("[data-question=order]");
await calm.keyboard.press("Enter");
await wait(300);
result.calm = [without(await look(calm))];
await calm.focus("[data-part=on]");
for (let press = 0; press < 9; press++) {
  await calm.keyboard.press("Enter");
  result.calm.push(without(await look(calm)));
}
result.calm_frames = await calm.evaluate(() => frames_ms.length);
await calm.close();

const bare = await open((tab) => tab.setJavaScriptEnabled(false));
result.bare = await visible(bare);
console.log(JSON.stringify(result));
await browser.close();
