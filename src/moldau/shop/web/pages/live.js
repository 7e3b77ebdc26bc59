"use strict";
// Everything that came from outside is set as text, never as HTML: ids and reasons may be anything that somebody sent.

const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const money = (cents) => (cents / 100).toFixed(2);
const took = (ms) => (ms === null || ms === undefined ? "–" : ms < 950 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

function set(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function smooth(values) {
  return values.map((_, at) => {
    const near = values.slice(Math.max(0, at - 1), at + 2);
    return near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}

function drawChart(created, judged) {
  const svg = byId("chart"), width = 600, height = 170;
  const one = smooth(created), two = smooth(judged);
  const peak = Math.max(4, ...one, ...two);
  const points = (values) => values.map((value, at) => `${((at / (values.length - 1)) * width).toFixed(1)},${(height - 2 - (value / peak) * (height - 12)).toFixed(1)}`);
  const shape = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const lines = [0.25, 0.5, 0.75].map((share) => shape("path", { class: "grid", d: `M0,${height * share} H${width}` }));
  svg.replaceChildren(
    ...lines,
    shape("path", { class: "area", d: `M0,${height} L${points(one).join(" L")} L${width},${height} Z` }),
    shape("path", { class: "line one", d: `M${points(one).join(" L")}` }),
    shape("path", { class: "line two", d: `M${points(two).join(" L")}` }),
  );
  const highest = Math.round(Math.max(...one, ...two));
  set("peak", highest ? `highest: ${whole.format(highest)} a second` : "");
  const now = (values) => whole.format(Math.round(values.slice(-3).reduce((sum, one) => sum + one, 0) / 3));
  set("created-now", now(created));
  set("judged-now", now(judged));
}

function drawReasons(reasons) {
  const entries = Object.entries(reasons).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...entries.map((entry) => entry[1]));
  const rows = entries.map(([reason, count]) => {
    const row = element("div"), words = element("p"), track = element("div", "track"), bar = element("i");
    words.append(element("span", "", reason), element("b", "", whole.format(count)));
    bar.style.width = `${(100 * count) / most}%`;
    track.append(bar);
    row.append(words, track);
    return row;
  });
  byId("reasons").replaceChildren(...(rows.length ? rows : [element("p", "quiet", "none has failed yet")]));
}

function drawRecent(recent) {
  if (!recent.length) {
    const cell = element("td", "quiet", "no order yet");
    cell.colSpan = 5;
    byId("recent").replaceChildren(element("tr"));
    byId("recent").firstChild.append(cell);
    return;
  }
  byId("recent").replaceChildren(
    ...recent.map((order) => {
      const row = element("tr");
      const link = element("a", "", order.order_id);
      link.href = `/orders/${encodeURIComponent(order.order_id)}`;
      const id = element("td");
      id.append(link);
      const state = element("td");
      state.append(element("span", `state ${order.state}`, [order.state, ...order.reasons].join(" · ")));
      row.append(id, element("td", "", order.customer_id), element("td", "number", money(order.cents)), state, element("td", "number", took(order.took_ms)));
      return row;
    }),
  );
}

function drawQueries(queries) {
  const rows = queries.map((query) => {
    const row = element("div"), lag = query.lag ?? 0;
    const pace = query.batches ? `${(query.seconds / query.batches).toFixed(2)} s a batch` : "";
    row.append(
      element("b", "", query.name),
      element("b", lag > 0 ? "behind" : "", `${whole.format(lag)} behind`),
      element("span", "", `${whole.format(query.rows ?? 0)} records read`),
      element("span", "", pace),
    );
    const trouble = [["dead_letters", "dead letters"], ["restarts", "restarts"]].filter(([name]) => query[name]);
    if (trouble.length) row.append(element("span", "behind", trouble.map(([name, words]) => `${words}: ${whole.format(query[name])}`).join(", ")));
    return row;
  });
  byId("queries").replaceChildren(...(rows.length ? rows : [element("p", "quiet", "none tells its figures: start the shop with --metrics URL")]));
}

function drawBurgers(burgers) {
  const promotion = burgers.promotion;
  set("list-price", money(promotion.list_price_cents));
  set("price", money(promotion.price_cents));
  set("percent", `${promotion.percent_off} % off`);
  set("most", String(promotion.most));
  const day = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  const from = promotion.starts_ms > 0 ? `From ${day(promotion.starts_ms)}` : "";
  const until = promotion.ends_ms < 8.64e15 ? `${from ? " until" : "Until"} ${day(promotion.ends_ms)}` : "";
  set("when", from || until ? `${from}${until}.` : "");
  set("paid", whole.format(burgers.paid_units));
  set("reserved", whole.format(burgers.reserved_units));
  set("accepted", whole.format(burgers.accepted));
  set("refused", whole.format(Object.values(burgers.refused).reduce((sum, one) => sum + one, 0)));
}

function draw(frame) {
  drawQueries(frame.queries);
  byId("status").className = frame.open ? "pill open" : "pill closed";
  set("status", frame.open ? "open" : "waiting for the brokers");
  for (const field of document.querySelectorAll("form input, form button")) field.disabled = !frame.takes_orders;
  if (!frame.takes_orders) for (const id of ["claimed", "ordered"]) set(id, "This page only shows what happens.");
  if (!frame.open) return;
  set("orders", whole.format(Object.values(frame.states).reduce((sum, one) => sum + one, 0)));
  for (const [state, count] of Object.entries(frame.states)) set(state, whole.format(count));
  set("p50", took(frame.latency_ms.p50));
  set("p99", took(frame.latency_ms.p99));
  drawChart(frame.created, frame.judged);
  drawReasons(frame.reasons);
  drawRecent(frame.recent);
  drawBurgers(frame.burgers);
}

const events = new EventSource("/events");
events.onmessage = (event) => draw(JSON.parse(event.data));
events.onerror = () => {
  byId("status").className = "pill closed";
  set("status", "no answer from the shop, trying again");
};

async function ask(path, body) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": [...crypto.getRandomValues(new Uint32Array(4))].join("-") };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  return [answer, await answer.json()];
}

function onSubmit(form, answer, send) {
  byId(form).addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const tell = (text, isGood) => { byId(answer).className = `answer ${isGood ? "good" : "bad"}`; set(answer, text); };
    try {
      await send(given, tell);
    } catch (error) {
      tell(`The shop does not answer: ${error.message}`, false);
    }
  });
}

onSubmit("claim", "claimed", async (given, tell) => {
  const [answer, found] = await ask("/burgers", { customer_id: given.customer_id, quantity: Number(given.quantity) });
  if (answer.status !== 201) return tell(found.reason ? `Refused: ${found.reason}, ${found.left} left for you now.` : found.detail, false);
  tell(`${found.quantity} reserved for ${money(found.cents)}. `, true);
  const pay = element("button", "small", "Pay");
  pay.type = "button";
  pay.onclick = async () => {
    const paying = await fetch(found.payment, { method: "POST" });
    const paid = await paying.json();
    tell(paying.ok ? `${paid.quantity} paid with ${money(paid.cents)}. Enjoy them!` : paid.detail, paying.ok);
  };
  byId("claimed").append(pay);
});

onSubmit("order", "ordered", async (given, tell) => {
  const quantity = Number(given.quantity), cents = quantity * 299;
  const lines = [{ product_id: 1029743, quantity, cents }];
  const [answer, placed] = await ask("/orders", { customer_id: given.customer_id, store_id: "367", lines, total_cents: cents });
  if (answer.status !== 202) return tell(placed.detail, false);
  tell(`${placed.order_id}: being checked …`, true);
  let verdict = { state: "CREATED" };
  while (verdict.state === "CREATED") {
    const asked = await fetch(placed.verdict);
    verdict = await asked.json();
    if (!asked.ok) return tell(verdict.detail, false);
  }
  tell([verdict.order_id + ":", verdict.state, ...verdict.reasons].join(" "), verdict.state === "VALIDATED");
});
