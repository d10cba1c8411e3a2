"use strict";
// Wall times in the reader's own zone, when asked for. Without scripts they stay in UTC.
(function () {
  const button = document.getElementById("local-times");
  const stamps = document.querySelectorAll("time[datetime]");
  if (!button || !stamps.length) return;
  document.documentElement.dataset.js = "1";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const utc = new Map([...stamps].map((stamp) => [stamp, stamp.textContent]));
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  function local(stamp) {
    const at = new Date(stamp.dateTime);
    const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
    if (stamp.dataset.clock !== undefined) return `${clock}.${pad(at.getMilliseconds(), 3)}`;
    return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock}`;
  }
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? `Times in ${zone}` : "Times in UTC";
    for (const stamp of stamps) stamp.textContent = on ? local(stamp) : utc.get(stamp);
    document.dispatchEvent(new CustomEvent("times", { detail: on ? "local" : "utc" }));
  });
})();
