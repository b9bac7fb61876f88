// Moves the sample of one page with the keyboard and the pointer and prints what is said, as JSON:
//   node pull.mjs CHROMIUM FILE
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
const result = { console: [], over: {}, axe: [], said: [] };
tab.on("console", (message) => result.console.push(message.text()));
tab.on("pageerror", (error) => result.console.push(String(error)));
await tab.setViewport({ width: 1280, height: 800 });
await tab.goto(pathToFileURL(file).href, { waitUntil: "networkidle0" });
await tab.evaluate(axe);

const look = async () => {
  await new Promise((resolve) => setTimeout(resolve, 400)); // the sentence waits for the slider
  const said = await tab.evaluate(() => {
    const [beta, odds] = [...document.querySelectorAll(".pull input")].map((input) =>
      input.getAttribute("aria-valuetext"),
    );
    const [start, end] = document
      .querySelector(".pull .arrow")
      .getAttribute("d")
      .match(/M([\d.]+) \d+H([\d.]+)/)
      .slice(1)
      .map(Number);
    return {
      beta,
      odds,
      arrow: end - start,
      width: document.querySelector(".pull svg").viewBox.baseVal.width,
      text: document.querySelector(".pull p").textContent.replaceAll("\u00a0", " "),
    };
  });
  result.said.push(said);
};

await look();
await tab.keyboard.press("Tab"); // β
await tab.keyboard.press("Home");
await look();
await tab.keyboard.press("Tab"); // the sample
await tab.keyboard.press("End");
await look();
await tab.focus(".pull input");
await tab.keyboard.press("End");
await look();
const box = await (await tab.$(".pull-picture")).boundingBox();
await tab.mouse.move(box.x + box.width / 2, box.y + 110);
await tab.mouse.down();
const four = box.x + 10 + ((box.width - 20) * 5) / 18; // log-odds −4
await tab.mouse.move(four, box.y + 110, { steps: 5 });
await tab.mouse.up();
await look();
for (const theme of ["light", "dark"]) {
  await tab.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
  for (const width of [1280, 390]) {
    await tab.setViewport({ width, height: 844 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    const found = await tab.evaluate(async () =>
      (await axe.run()).violations.flatMap((rule) =>
        rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}`),
      ),
    );
    result.axe.push(...found.map((text) => `${width} ${theme} ${text}`));
    result.over[width] = await tab.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
  }
}
console.log(JSON.stringify(result));
await browser.close();
