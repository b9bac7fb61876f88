// Moves the slider of the epochs of one page with the keyboard and prints what happened as JSON:
//   node fifths.mjs CHROMIUM FILE
// No mouse, no network.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--allow-file-access-from-files"],
});
const tab = await browser.newPage();
const result = { console: [], requests: [], axe: [], over: {}, height: {}, smallest: {} };
tab.on("console", (message) => result.console.push(message.text()));
tab.on("pageerror", (error) => result.console.push(String(error)));
tab.on("request", (request) => result.requests.push(new URL(request.url()).protocol));
await tab.setViewport({ width: 1280, height: 800 });
await tab.goto(pathToFileURL(file).href, { waitUntil: "networkidle0" });
await tab.evaluate(axe);

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const look = async () => {
  await wait(400); // the sentence waits until the slider rests
  return tab.evaluate(() => {
    const slider = document.querySelector(".fifths input[type=range]");
    const said = document.querySelector(".fifths-text[role=status]");
    const marks = [...document.querySelectorAll(".fifths-picture g")];
    return {
      epoch: document.querySelector(".fifths output").textContent,
      spoken: slider.getAttribute("aria-valuetext"),
      label: slider.labels[0].textContent,
      text: said.textContent.replaceAll("\u00a0", " "),
      places: marks.map((mark) => mark.transform.baseVal[0].matrix.e),
      focus: document.activeElement === slider,
    };
  });
};

result.start = await look();
await tab.keyboard.press("Tab");
result.reached = await look();
await tab.keyboard.press("ArrowRight");
result.right = await look();
await tab.keyboard.press("End");
result.end = await look();
await tab.keyboard.press("ArrowRight");
result.beyond = await look();
await tab.keyboard.press("Home");
result.home = await look();
await tab.keyboard.press("ArrowLeft");
result.before = await look();

for (const theme of ["light", "dark"]) {
  await tab.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
  for (const width of [1280, 390]) {
    await tab.setViewport({ width, height: 844 });
    await wait(200);
    const found = await tab.evaluate(async () => {
      const { violations, incomplete } = await axe.run();
      // a text in the colour of its ground is left to a person
      const unseen = (node) => node.any.some((check) => check.data?.messageKey === "equalRatio");
      return [
        ...violations,
        ...incomplete.map((rule) => ({ ...rule, nodes: rule.nodes.filter(unseen) })),
      ];
    });
    for (const rule of found) {
      result.axe.push(...rule.nodes.map((node) => `${width} ${theme} ${rule.id}: ${node.target}`));
    }
    Object.assign(
      result,
      await tab.evaluate(
        (width, { over, height, smallest }) => {
          const root = document.documentElement;
          const texts = [...document.querySelectorAll(".fifths svg text")];
          const size = (text) =>
            parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a;
          over[width] = root.scrollWidth - root.clientWidth;
          height[width] = document.querySelector(".fifths input").getBoundingClientRect().height;
          smallest[width] = Math.min(...texts.map(size));
          return { over, height, smallest };
        },
        width,
        result,
      ),
    );
  }
}
console.log(JSON.stringify(result));
await browser.close();
