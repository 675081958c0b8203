"use strict";
// What the console does in the browser alone: keys, the theme, ages of instants, and where the navigation stands.
window.toolwright = (() => {
  const root = document.currentScript.src.replace(/\/static\/.*/, "");
  const path = new URL(root).pathname;
  let prefix = false;

  function theme() {
    const dark = !document.body.classList.contains("body--dark");
    document.cookie = `toolwright_theme=${dark ? "dark" : "light"}; path=${path}; max-age=31536000; samesite=lax`;
    Quasar.Dark.set(dark);
  }

  function signOut(everywhere = false) {
    const action = `${path}/sign-out${everywhere ? "?everywhere" : ""}`;
    const form = Object.assign(document.createElement("form"), { method: "post", action });
    document.body.append(form);
    form.submit();
  }

  function age(seconds) {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return "now";
  }

  function showTimes() {
    for (const shown of document.querySelectorAll("time[datetime]")) {
      const instant = new Date(shown.getAttribute("datetime"));
      const seconds = (Date.now() - instant) / 1000;
      const local = instant.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
      const words = seconds >= 0 && seconds < 604800 ? age(seconds) : local;
      if (shown.title !== local) shown.title = local;
      if (shown.textContent !== words) shown.textContent = words;
    }
  }

  function clock(instant) {
    const isToday = instant.toDateString() === new Date().toDateString();
    const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    return instant.toLocaleString([], isToday ? time : { day: "numeric", month: "short", ...time });
  }

  function showDeadlines() {
    for (const shown of document.querySelectorAll("time[data-until]")) {
      const instant = new Date(shown.dataset.until);
      const seconds = (instant - Date.now()) / 1000;
      const words = seconds > 0 ? `· Answer until ${clock(instant)}` : "· The time to answer has expired";
      if (!shown.title) shown.title = instant.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
      if (shown.textContent !== words) shown.textContent = words;
    }
  }

  function showPlace() {
    const here = location.pathname.slice(path.length) || "/";
    for (const place of document.querySelectorAll(".place")) {
      const there = new URL(place.href).pathname.slice(path.length) || "/";
      const inside = there === "/" ? here === "/" || /^\/spaces(\/|$)/.test(here) : here.startsWith(there);
      if (inside) place.setAttribute("aria-current", "page");
      else place.removeAttribute("aria-current");
    }
  }

  // A log whose end is in sight stays there while it grows.
  let atEnd = true;
  const scroller = document.scrollingElement;
  addEventListener("scroll", () => {
    atEnd = scroller.scrollHeight - scroller.scrollTop - innerHeight < 80;
  }, { passive: true });
  let length = 0;
  function followEnd() {
    const followed = document.querySelector("[data-follow]");
    if (!followed) { length = 0; atEnd = true; return; }
    if (scroller.scrollHeight !== length && atEnd) scroller.scrollTop = scroller.scrollHeight;
    length = scroller.scrollHeight;
  }

  const isField = (element) => element.matches("input, textarea, select, [contenteditable=true]");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isField(event.target)) event.target.blur();
    if (isField(event.target)) return;
    if (prefix) {
      prefix = false;
      document.querySelector(`.place[data-key="${CSS.escape(event.key)}"]`)?.click();
    } else if (event.key === "g") {
      prefix = true;
      setTimeout(() => { prefix = false; }, 1500);
    } else if (event.key === "/") {
      document.querySelector("[data-focus] input, [data-focus] textarea, input[data-focus], textarea[data-focus]")?.focus();
      event.preventDefault();
    } else if (event.key === "?") {
      document.querySelector("[data-keys]")?.click();
    }
  });

  let asked = false;
  function soon() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; showTimes(); showPlace(); followEnd(); });
  }
  new MutationObserver(soon).observe(document.body, {
    childList: true, characterData: true, subtree: true, attributes: true, attributeFilter: ["href", "datetime"],
  });
  setInterval(soon, 30000);
  setInterval(showDeadlines, 1000);
  soon();
  function toEnd() {
    atEnd = true;
    scroller.scrollTop = scroller.scrollHeight;
  }
  return { theme, signOut, toEnd };
})();
