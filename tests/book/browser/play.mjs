// Plays with the figure of one page and prints what happened as JSON:
//   node play.mjs CHROMIUM FILE
// The slider is moved with the keyboard; no mouse, no network.
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--allow-file-access-from-files"] });
const tab = await browser.newPage();
const result = { console: [], over: {} };
tab.on("console", (message) => result.console.push(message.text()));
tab.on("pageerror", (error) => result.console.push(String(error)));
await tab.setViewport({ width: 1280, height: 800 });
await tab.goto(pathToFileURL(file).href, { waitUntil: "networkidle0" });

const look = async () => {
  await new Promise((resolve) => setTimeout(resolve, 400)); // the sentence waits until the slider rests
  return tab.evaluate(() => {
    const slider = document.querySelector(".play input[type=range]");
    return {
      beta: document.querySelector(".play output").textContent,
      spoken: slider.getAttribute("aria-valuetext"),
      label: slider.labels[0].textContent,
      text: document.querySelector(".play-text[role=status]").textContent.replaceAll("\u00a0", " "),
      curve: document.querySelector("[data-panel=gradient] .curve:not(.reference)").getAttribute("d"),
    };
  });
};

result.start = await look();
await tab.focus(".play input[type=range]");
for (let press = 0; press < 7; press++) await tab.keyboard.press("ArrowRight");
result.right = await look();
await tab.keyboard.press("End");
result.end = await look();
await tab.keyboard.press("Home");
result.home = await look();
for (const width of [1280, 390]) {
  await tab.setViewport({ width, height: 844 });
  await new Promise((resolve) => setTimeout(resolve, 200));
  result.over[width] = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
console.log(JSON.stringify(result));
await browser.close();
