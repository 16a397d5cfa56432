const root = document.documentElement;
const THEMES = ["auto", "light", "dark"];

// ---- time: elapsed counts on without a request, instants are shown in the reader's zone

let serverAheadMs = 0;

/** As elapsedText in web/panel/format.ts. */
function elapsed(ms, units = 2) {
  if (ms < 1000) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + units)
    .filter(([amount], index) => index === 0 || amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

const twoDigits = (value) => String(value).padStart(2, "0");
const SHAPES = {
  minute: (at) => `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`,
  clock: (at) => `${SHAPES.minute(at)}:${twoDigits(at.getSeconds())}`,
  day: (at, now) => {
    if (at.toDateString() === now.toDateString()) return SHAPES.clock(at);
    const day = `${at.toLocaleString("en", { month: "short" })} ${at.getDate()}`;
    return `${day}${at.getFullYear() === now.getFullYear() ? "" : ` ${at.getFullYear()}`}, ${SHAPES.clock(at)}`;
  },
};

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function writeTimes() {
  const now = new Date(Date.now() + serverAheadMs);
  for (const element of document.querySelectorAll("time[data-count]")) {
    const ms = now.getTime() - Date.parse(element.dateTime);
    if (element.dataset.count === "since") write(element, elapsed(ms));
    else if (element.dataset.count === "ago") write(element, ms < 5000 ? "just now" : `${elapsed(ms, 1)} ago`);
    else write(element, ms >= 0 ? "now" : `in ${elapsed(-ms)}`);
  }
  for (const element of document.querySelectorAll("time[data-shape]")) {
    write(element, SHAPES[element.dataset.shape](new Date(element.dateTime), now));
  }
}

function readServerTime() {
  const page = document.getElementById("page");
  if (page?.dataset.now) serverAheadMs = Date.parse(page.dataset.now) - Date.now();
}

// A refreshed page brings the server's texts; they are put right before the browser paints.
let seenNow = null;
new MutationObserver(() => {
  const now = document.getElementById("page")?.dataset.now ?? null;
  if (now !== seenNow) {
    seenNow = now;
    readServerTime();
  }
  writeTimes();
}).observe(document.body, {
  subtree: true,
  childList: true,
  characterData: true,
  attributes: true,
  attributeFilter: ["data-now"],
});
readServerTime();
writeTimes();
setInterval(writeTimes, 1000);

// ---- the stream: the page says when it shows old facts

const setLive = (state) => () => {
  root.dataset.live = state;
};
document.addEventListener("htmx:sse:after:connection", setLive("on"));
document.addEventListener("htmx:sse:error", (event) => {
  root.dataset.live = "off";
  // The session has ended: the server leads to the login, and from there back to this page.
  if (event.detail.status === 401) location.reload();
});
document.addEventListener("htmx:sse:close", setLive("off"));
document.addEventListener("htmx:sse:before:connection", (event) => {
  if (event.detail.connection?.attempt > 0) root.dataset.live = "off";
});

// ---- clicks

async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  if (button.dataset.copy !== undefined) void copy(button);
  if (button.dataset.themeSwitch !== undefined) {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    root.dataset.theme = next;
    localStorage.setItem("turno-theme", next);
  }
});

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question !== undefined && !confirm(question)) event.preventDefault();
});

// An empty field of a filter stays out of the address.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});
