"use strict";

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function table(rows) {
  const made = element("table");
  for (const [name, about] of rows) {
    const row = element("tr");
    row.append(element("td", name), element("td", about));
    made.append(row);
  }
  return made;
}

function curl(method, path, operation) {
  const given = Object.values(operation.requestBody?.content ?? {})[0];
  if (!given) return `curl -s ${location.origin}${path}`;
  return `curl -s ${location.origin}${path} \\\n  -H 'Idempotency-Key: one-of-your-own' -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(given.example)}'`;
}

function said(document, schema) {
  return JSON.stringify(document.components.schemas[schema.$ref.split("/").pop()].properties, null, 1);
}

async function draw() {
  const document_ = await (await fetch("/openapi.json")).json();
  const main = document.getElementById("api");
  main.append(element("p", document_.info.description), element("br"));
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const card = element("article", undefined, "card"), title = element("h2");
      title.append(element("b", method.toUpperCase(), method), element("code", path));
      card.append(title, element("p", operation.summary), element("p", operation.description ?? "", "quiet"));
      card.append(element("pre", curl(method, path, operation)));
      if (operation.parameters) card.append(table(operation.parameters.map((one) => [one.name, `${one.in}${one.required ? "" : ", optional"}. ${one.description ?? ""}`])));
      card.append(table(Object.entries(operation.responses).map(([status, one]) => [status, one.description])));
      const body = Object.values(operation.requestBody?.content ?? {})[0];
      if (body) card.append(element("p", "fields of the body", "quiet"), element("pre", said(document_, body.schema)));
      main.append(card);
    }
  }
}

draw();
