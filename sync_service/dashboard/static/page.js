// What every page does in the browser: times that go on, whether the stream lives, and a question before what is final.
"use strict";

(() => {
  const QUIET_MS = 12000; // a stream says every 5 s that it lives
  let ahead = 0; // how far the service's clock is ahead of this one, in ms
  let heard = null; // when the stream was last heard of, by this page's clock

  function span(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 120) return `${s} s`;
    if (s < 3600) return `${Math.round(s / 60)} min`;
    const [big, small, bigUnit, smallUnit] = s < 86400 ? [3600, 60, "h", "min"] : [86400, 3600, "d", "h"];
    const rest = Math.floor((s % big) / small);
    return rest ? `${Math.floor(s / big)} ${bigUnit} ${rest} ${smallUnit}` : `${Math.floor(s / big)} ${bigUnit}`;
  }

  function countTimes() {
    const now = Date.now() + ahead;
    for (const time of document.querySelectorAll("time[data-ago]")) {
      time.textContent = span((now - Date.parse(time.dateTime)) / 1000);
    }
  }

  function showStream() {
    const stale = document.getElementById("stale");
    if (!stale || heard === null) return;
    const quiet = performance.now() - heard;
    const lost = quiet > QUIET_MS || document.documentElement.dataset.stream === "lost";
    document.getElementById("live").hidden = lost;
    document.getElementById("stale-age").textContent = span(quiet / 1000);
    if (stale.hidden === lost) stale.hidden = !lost; // said once, and not at each count
  }

  function hear(at) {
    heard = performance.now();
    delete document.documentElement.dataset.stream;
    if (at) ahead = Date.parse(at) - Date.now();
    showStream();
  }

  document.addEventListener("htmx:sseOpen", (event) => {
    event.detail.source.addEventListener("alive", (message) => hear(message.data));
    event.detail.source.addEventListener("over", () => location.reload()); // the session: to the login
    hear(null);
  });
  document.addEventListener("htmx:sseError", () => {
    document.documentElement.dataset.stream = "lost";
    if (heard === null) heard = performance.now();
    showStream();
  });
  document.addEventListener("htmx:sseMessage", countTimes);
  document.addEventListener("submit", (event) => {
    const question = event.submitter && event.submitter.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });
  setInterval(() => {
    if (document.getElementById("stale")) countTimes(); // on other pages nothing else moves either
    showStream();
  }, 1000);
})();
