"use strict";

const byId = (id) => document.getElementById(id);
let schemas = {};

function element(name, text, ...children) {
  const found = document.createElement(name);
  if (text !== null) found.textContent = text;
  found.append(...children);
  return found;
}

const target = (schema) => schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema;

function typeOf(schema) {
  const found = target(schema);
  if (found.anyOf) return [...new Set(found.anyOf.map(typeOf))].join(" or ");
  if (found.enum) return found.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.type === "array") return `list of ${typeOf(found.items || {})}`;
  return found.type || "any";
}

function limitsOf(schema) {
  const found = target(schema);
  const all = [found, ...(found.anyOf || []).map(target)];
  const names = { minimum: "at least", maximum: "at most", exclusiveMaximum: "below", maxLength: "most characters",
                  minItems: "least items", maxItems: "most items" };
  return Object.entries(names).flatMap(([key, name]) => {
    const limit = all.map((part) => part[key]).find((value) => value !== undefined);
    return limit === undefined ? [] : [`${name} ${limit}`];
  }).join(", ");
}

function rowsOf(schema) {
  const required = schema.required || [];
  return Object.entries(schema.properties || {}).map(([name, field]) => {
    const value = required.includes(name) ? "required" : field.default === undefined ? "" : JSON.stringify(field.default);
    const texts = [field.description, limitsOf(field)].filter(Boolean).join("; ");
    const row = element("tr", null, element("th", name));
    row.firstChild.scope = "row";
    row.append(...[typeOf(field), value, texts].map((text) => element("td", text)));
    return row;
  });
}

function table(rows) {
  const head = element("tr", null, ...["Field", "Type", "Default", "Meaning"].map((text) => {
    const cell = element("th", text);
    cell.scope = "col";
    return cell;
  }));
  return element("table", null, element("thead", null, head), element("tbody", null, ...rows));
}

function endpoint(path, method, operation) {
  const found = element("details", null, element("summary", `${method.toUpperCase()} ${path}`));
  found.append(element("p", operation.description || operation.summary || ""));
  const body = operation.requestBody && operation.requestBody.content["application/json"];
  if (body) found.append(table(rowsOf(target(body.schema))));
  return found;
}

async function begin() {
  try {
    const answer = await fetch("openapi.json");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const { paths, components } = await answer.json();
    schemas = (components || {}).schemas || {};
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) byId("endpoints").append(endpoint(path, method, operation));
    }
    byId("status").textContent = "Each endpoint opens to the fields of its requests.";
  } catch (error) {
    byId("status").textContent = `The description cannot be read: ${error.message}`;
    byId("status").className = "error";
  }
}

begin();
