// Opens pages of the built book from their files, as a reader would, and prints what it sees, a line for each page:
//   node look.mjs [--json] CHROMIUM FOLDER [PAGE...]
// axe in both widths and both themes, tables that scroll sideways, pages that are too wide, messages of the console, formulas that MathJax
// could not read, what was loaded and how much that is. Without names, all pages. With --json a line holds everything that was seen.
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [json, chromium, folder, ...named] = (process.argv[2] === "--json" ? [] : [""]).concat(process.argv.slice(2));
const index = readFileSync(`${folder}/searchindex.js`, "utf8");
const pages = named.length ? named : [...JSON.parse(index.slice(index.indexOf("{"), index.lastIndexOf("}") + 1)).docnames, "search"];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [[1280, 800], [390, 844]];
const THEMES = ["light", "dark"];

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--allow-file-access-from-files"] });

// Formulas are left out: their boxes are hidden from readers of the screen, which get MathML instead, and take axe most of its time.
const violations = (tab, rules) =>
  tab.evaluate(async (rules) => {
    const only = rules ? { runOnly: { type: "rule", values: rules } } : {};
    const found = await axe.run({ exclude: [["mjx-container"]] }, { resultTypes: ["violations"], ...only });
    // a header that is a formula has its text in MathML, which axe does not read
    const seen = (rule, node) => rule.id === "empty-table-header" && document.querySelector(node.target[0])?.querySelector("math");
    return found.violations.flatMap((rule) =>
      rule.nodes.filter((node) => !seen(rule, node)).map((node) => `${rule.id}: ${node.target.join(" ")} ${node.any[0]?.message ?? ""}`),
    );
  }, rules);

async function look(name) {
  const tab = await browser.newPage();
  const result = { page: name, console: [], requests: {}, axe: [], scrolling: {}, wide: {}, starts: {} };
  tab.on("console", (message) => ["error", "warn"].includes(message.type()) && result.console.push(message.text()));
  tab.on("pageerror", (error) => result.console.push(String(error)));
  tab.on("requestfailed", (request) => result.console.push(`not loaded: ${request.url()}`));
  tab.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol === "data:") return;
    url.search = url.hash = "";
    result.requests[url.href] = url.protocol === "file:" ? (statSync(fileURLToPath(url), { throwIfNoEntry: false })?.size ?? 0) : -1;
  });
  await tab.setViewport({ width: 1280, height: 800 });
  await tab.goto(pathToFileURL(`${folder}/${name}.html`).href, { waitUntil: "networkidle0", timeout: 120000 });
  await tab.evaluate(() => globalThis.MathJax?.startup?.promise);
  // an unknown command is shown in red
  result.formulas = await tab.evaluate(() =>
    [...document.querySelectorAll("mjx-merror, mjx-container [mathcolor='red']")].map((part) => part.textContent),
  );
  result.weight = Object.values(result.requests).reduce((sum, size) => sum + Math.max(size, 0), 0);
  await tab.evaluate(axe);
  await tab.addStyleTag({ content: "* { transition: none !important; }" }); // colours change at once
  for (const [width, height] of WIDTHS) {
    await tab.setViewport({ width, height });
    // the theme looks anew which boxes scroll, so that the keyboard reaches them; a while after the size has changed, of which a tab in the
    // background is not always told
    await tab.evaluate(() => dispatchEvent(new Event("resize")));
    const reached = () =>
      [...document.querySelectorAll("pre, .pst-scrollable-table-container")].every((box) => box.scrollWidth <= box.clientWidth || !box.tabIndex);
    await tab.waitForFunction(reached, { timeout: 30000, polling: 200 }).catch(() => null);
    for (const theme of THEMES) {
      await tab.evaluate((theme) => (document.documentElement.dataset.theme = document.documentElement.dataset.mode = theme), theme);
      const found = await violations(tab, theme === "light" ? null : ["color-contrast"]); // a theme changes nothing but colours
      result.axe.push(...found.map((text) => `${width} ${theme} ${text}`));
    }
    result.scrolling[width] = await tab.evaluate(() =>
      [...document.querySelectorAll(".bd-article table")].flatMap((table) => {
        const box = table.closest(".pst-scrollable-table-container, .output, .proof") ?? table.parentElement;
        const over = Math.max(box.scrollWidth - box.clientWidth, table.offsetWidth - box.clientWidth);
        return over > 1 ? [`${table.id || "(no name)"} by ${over}`] : [];
      }),
    );
    result.wide[width] = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    // where the answer of the first page and its doors begin, from the top of the page
    result.starts[width] = await tab.evaluate(() =>
      Object.fromEntries([".answer", ".sd-card"].map((name) => [name, document.querySelector(`.bd-article ${name}`)?.getBoundingClientRect().top])),
    );
  }
  await tab.close();
  return result;
}

const row = (...cells) => console.log(cells.map((cell, i) => (i ? String(cell).padStart(8) : String(cell).padEnd(40))).join(" "));
const tell = (seen) => {
  row(seen.page, seen.axe.length, seen.scrolling[1280].length, seen.scrolling[390].length, seen.wide[1280], seen.wide[390], seen.console.length, Math.round(seen.weight / 1000));
  const told = [...seen.axe, ...seen.formulas.map((text) => `formula: ${text}`), ...[1280, 390].flatMap((width) => seen.scrolling[width].map((text) => `${width} table ${text}`)), ...seen.console];
  told.forEach((text) => console.log(`    ${text}`));
};
if (!json) row("page", "axe", "t. 1280", "t. 390", "over", "over 390", "console", "kB");
const waiting = [...pages];
const worker = async () => {
  while (waiting.length) {
    const seen = await look(waiting.shift());
    if (json) console.log(JSON.stringify(seen));
    else tell(seen);
  }
};
await Promise.all([worker(), worker()]);
await browser.close();
