// Draws each <figure class="chart">, as docs/dashboard.md describes its data, and a table of the same figures beneath.
"use strict";

(() => {
  const HEIGHT = 220;
  const WHOLE = [0, 1, 2, 3, 4, 5].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)); // steps, calls
  const ROWS = 500; // of a table; it is the last ones that are shown
  const drawn = new Map(); // figure -> {plot, data}

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const known = { planner: "--planner", executor: "--executor" };
  const others = ["--link", "--ok", "--warn", "--odd", "--bad"];
  const colour = (series, place) => css(known[series.role] || others[place % others.length]);
  const short = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(4))));

  // An exponential moving average, with the start's bias taken out; what is unknown stays so.
  function smooth(values, weight) {
    if (!values || !weight) return values;
    let sum = 0, mass = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = weight * sum + (1 - weight) * value;
      mass = weight * mass + (1 - weight);
      return sum / mass;
    });
  }

  function options(figure, data, names) {
    const bars = figure.dataset.chart === "bars";
    const axis = { stroke: css("--quiet"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width: width(figure), height: HEIGHT, legend: { show: false },
      cursor: { drag: { x: !bars, y: false }, points: { show: !bars } },
      scales: {
        x: { time: false, range: bars ? (_, low, high) => [low - 0.6, high + 0.6] : undefined },
        y: { range: bars ? (_, low, high) => [0, high * 1.05 || 1] : undefined },
      },
      axes: [
        { ...axis, grid: { show: false }, values: names ? (_, at) => at.map((x) => names[x] ?? "") : undefined,
          incrs: WHOLE, size: 34 },
        { ...axis, size: 54 },
      ],
      series: [{ label: data.xLabel || "x" }],
      bands: [],
    };
  }

  // How a series is drawn: bars of two series stand side by side.
  function style(figure, stroke, place, count) {
    if (figure.dataset.chart !== "bars") return { width: 1.75, spanGaps: true };
    const paths = uPlot.paths.bars({ size: [0.84 / count, 60], align: count === 2 ? (place ? 1 : -1) : 0 });
    return { paths, fill: `${stroke}b3`, width: 0, points: { show: false } };
  }

  const width = (figure) => Math.max(220, figure.querySelector(".plot").clientWidth);

  function draw(figure, data) {
    drawn.get(figure)?.plot.destroy();
    const weight = Number(document.querySelector(`input[data-smooth="${CSS.escape(figure.id)}"]`)?.value || 0);
    const names = data.x.some((x) => typeof x === "string") ? data.x.map(String) : null;
    const x = names ? names.map((_, place) => place) : data.x;
    const set = options(figure, data, names);
    const columns = [x];
    data.series.forEach((series, place) => {
      const stroke = colour(series, place);
      if (series.low && series.high) {
        const edge = { stroke: "transparent", points: { show: false }, width: 0, spanGaps: true };
        set.series.push({ ...edge, label: `${series.name}, low` }, { ...edge, label: `${series.name}, high` });
        columns.push(smooth(series.low, weight), smooth(series.high, weight));
        set.bands.push({ series: [columns.length - 1, columns.length - 2], fill: `${stroke}26` });
      }
      set.series.push({
        label: series.name, stroke, points: { show: x.length === 1, size: 6 }, dash: series.dash ? [6, 4] : undefined,
        ...style(figure, stroke, place, data.series.length),
      });
      columns.push(smooth(series.y, weight));
    });
    for (const line of data.lines || []) {
      set.series.push({ label: line.name, stroke: css("--bad"), width: 1, dash: [5, 4], points: { show: false } });
      columns.push(x.map(() => line.y));
    }
    const place = figure.querySelector(".plot");
    place.textContent = "";
    if (!x.length) {
      place.textContent = "Nothing to draw yet.";
      drawn.delete(figure);
      return;
    }
    set.axes[1].label = data.yLabel;
    set.axes[1].labelSize = data.yLabel ? 20 : 0;
    set.axes[1].labelFont = set.axes[1].font;
    const plot = new uPlot(set, columns, place);
    explain(figure, set.series);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", summary(figure.dataset.label, data));
    drawn.set(figure, { plot, data });
    if (figure.querySelector("details").open) tabulate(figure);
  }

  // Which colour is which; the edges of a band need no name.
  function explain(figure, series) {
    const list = figure.querySelector("ul") || figure.querySelector(".plot").insertAdjacentElement("beforebegin", document.createElement("ul"));
    list.replaceChildren(...series.slice(1).filter(({ stroke }) => stroke !== "transparent").map(({ label, stroke, dash }) => {
      const item = Object.assign(document.createElement("li"), { textContent: label });
      item.style.borderColor = stroke;
      item.style.borderLeftStyle = dash ? "dashed" : "solid";
      return item;
    }));
  }

  function summary(label, data) {
    const ends = data.series.map((series) => {
      const values = series.y.filter((value) => value !== null);
      return values.length ? `${series.name} from ${short(values[0])} to ${short(values[values.length - 1])}` : `${series.name} without values`;
    });
    return `${label}: ${ends.join("; ")}. The figures are in a table below.`;
  }

  function tabulate(figure) {
    const entry = drawn.get(figure);
    if (!entry) return;
    const { data } = entry;
    const table = document.createElement("table");
    const row = (parent, tag, texts) => {
      const line = parent.insertRow();
      for (const text of texts) line.appendChild(Object.assign(document.createElement(tag), { textContent: text }));
    };
    row(table.createTHead(), "th", [data.xLabel || "x", ...data.series.map((series) => series.name)]);
    const body = table.createTBody();
    for (let place = Math.max(0, data.x.length - ROWS); place < data.x.length; place += 1) {
      row(body, "td", [String(data.x[place]), ...data.series.map((series) => short(series.y[place]))]);
    }
    figure.querySelector(".numbers").replaceChildren(table);
  }

  async function load(figure) {
    const inline = figure.querySelector('script[type="application/json"]');
    if (inline) return draw(figure, JSON.parse(inline.textContent));
    const answer = await fetch(figure.dataset.src, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return draw(figure, await answer.json());
  }

  function start(figure) {
    figure.dataset.drawn = "";
    const show = () => load(figure).catch(() => { figure.querySelector(".plot").textContent = "The figures could not be read."; });
    figure.addEventListener("refresh", show);
    const details = figure.querySelector("details");
    details.addEventListener("toggle", () => details.open && tabulate(figure));
    sizes.observe(figure.querySelector(".plot"));
    show();
  }

  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const figure = entry.target.closest("figure");
      const plot = drawn.get(figure)?.plot;
      if (plot && plot.width !== width(figure)) plot.setSize({ width: width(figure), height: HEIGHT });
    }
  });

  function scan() {
    for (const [figure, { plot }] of drawn) {
      if (!figure.isConnected) { plot.destroy(); drawn.delete(figure); }
    }
    document.querySelectorAll("figure.chart:not([data-drawn])").forEach(start);
  }

  const again = () => drawn.forEach(({ data }, figure) => draw(figure, data));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.addEventListener("input", (event) => {
    const id = event.target.dataset?.smooth;
    const entry = id && drawn.get(document.getElementById(id));
    if (entry) draw(document.getElementById(id), entry.data);
  });
  document.addEventListener("htmx:load", scan);
  document.addEventListener("DOMContentLoaded", scan);
})();
