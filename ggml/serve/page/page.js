"use strict";

const byId = (id) => document.getElementById(id);
const SETTINGS = [
  ["temperature", "Temperature"], ["top_k", "Top k"], ["top_p", "Top p"], ["min_p", "Min p"],
  ["repeat_penalty", "Repeat penalty"], ["presence_penalty", "Presence penalty"], ["seed", "Seed"],
  ["max_tokens", "Most tokens"],
];
const TIMINGS = [
  ["cache_n", "Tokens known before", 0], ["prompt_n", "Tokens read", 0], ["prompt_per_second", "Tokens read per second", 1],
  ["prompt_ms", "Until the first token, ms", 0], ["predicted_n", "Tokens written", 0],
  ["predicted_per_second", "Tokens written per second", 1],
];
let messages = [];
let running = null;

function element(name, text, attributes = {}) {
  const found = document.createElement(name);
  if (text !== null) found.textContent = text;
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
}

async function ask(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (byId("key").value) headers.Authorization = `Bearer ${byId("key").value}`;
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { headers };
  const answer = await fetch(path, options);
  if (!answer.ok) {
    const text = await answer.text();
    let message = text;
    try { message = JSON.parse(text).error.message; } catch { /* it is no JSON */ }
    throw new Error(`${answer.status}: ${message}`);
  }
  return answer;
}

/* The parts of a text that are code, and those between them. */
function divided(text) {
  const parts = [];
  text.split(/^```.*$/m).forEach((part, i) => {
    const inner = part.replace(/^\n/, "").replace(/\n$/, "");
    if (i % 2) parts.push(element("pre", inner));
    else if (inner) parts.push(element("span", inner));
  });
  return parts;
}

function show(role) {
  const item = element("li", null, { class: role });
  item.append(element("h2", role));
  const parts = { reasoning: null, text: element("div", "", { class: "text" }), calls: null };
  item.append(parts.text);
  byId("messages").append(item);
  return {
    add(delta) {
      if (delta.reasoning_content) {
        if (!parts.reasoning) {
          const details = element("details", null);
          details.append(element("summary", "Reasoning"));
          parts.reasoning = element("div", "", { class: "text" });
          details.append(parts.reasoning);
          item.insertBefore(details, parts.text);
        }
        parts.reasoning.textContent += delta.reasoning_content;
      }
      if (delta.content) parts.text.textContent += delta.content;
      for (const call of delta.tool_calls || []) {
        item.append(element("pre", `${call.function.name}(${call.function.arguments})`));
      }
      item.scrollIntoView({ block: "end" });
    },
    end() { parts.text.replaceChildren(...divided(parts.text.textContent)); },
    remove() { item.remove(); },
  };
}

function report(text, wrong = false) {
  byId("status").textContent = text;
  byId("status").className = wrong ? "error" : "";
}

function request() {
  const body = { model: byId("model").value || undefined, stream: true, stream_options: { include_usage: true },
                 logprobs: true, top_logprobs: 5 };
  for (const [name] of SETTINGS) {
    const value = byId(name).value;
    if (value !== "") body[name] = Number(value);
  }
  const system = byId("system").value;
  body.messages = system ? [{ role: "system", content: system }, ...messages] : messages;
  if (byId("tools").value.trim()) body.tools = JSON.parse(byId("tools").value);
  if (byId("schema").value.trim()) {
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(byId("schema").value) } };
  }
  return body;
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    for (let end; (end = held.indexOf("\n\n")) >= 0; held = held.slice(end + 2)) {
      const data = held.slice(0, end).replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

function showTimings(timings) {
  byId("timings").replaceChildren(...TIMINGS.map(([key, name, digits]) => {
    const row = element("tr", null);
    row.append(element("th", name, { scope: "row" }), element("td", Number(timings[key]).toFixed(digits)));
    return row;
  }));
}

function showProbabilities(tokens) {
  for (const token of tokens) {
    const others = token.top_logprobs.map((top) => `${JSON.stringify(top.token)} ${(100 * Math.exp(top.logprob)).toFixed(1)} %`);
    const share = Math.exp(token.logprob);
    const span = element("span", token.token, { title: others.join("\n") });
    span.style.borderBottomWidth = `${1 + Math.round(4 * (1 - share))}px`;
    byId("probabilities").append(span);
  }
}

async function showTokens() {
  if (!byId("prompt").open) return;
  try {
    const body = request();
    const model = body.model;
    const { prompt } = await (await ask("apply-template", { model, messages: body.messages, tools: body.tools })).json();
    const { tokens } = await (await ask("tokenize", { model, content: prompt, add_special: true, with_pieces: true })).json();
    byId("tokens").replaceChildren(...tokens.map((token) => element("span", token.piece, { title: `token ${token.id}` })));
  } catch (error) {
    report(error.message, true);
  }
}

async function send() {
  const question = byId("question").value;
  messages.push({ role: "user", content: question });
  const asked = show("user");
  asked.add({ content: question });
  byId("question").value = "";
  byId("probabilities").replaceChildren();
  const message = { role: "assistant", content: "" };
  let shown = null;
  running = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  report("The model answers.");
  try {
    const answer = await ask("v1/chat/completions", request(), running.signal);
    shown = show("assistant");
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      if (event.timings) showTimings(event.timings);
      for (const choice of event.choices) {
        const delta = choice.delta;
        message.content += delta.content || "";
        if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content || "") + delta.reasoning_content;
        if (delta.tool_calls) message.tool_calls = [...(message.tool_calls || []), ...delta.tool_calls];
        shown.add(delta);
        if (choice.logprobs) showProbabilities(choice.logprobs.content);
      }
    }
    report("The answer is complete.");
  } catch (error) {
    report(error.name === "AbortError" ? "The answer was stopped." : error.message, error.name !== "AbortError");
  }
  if (message.content || message.tool_calls) {
    messages.push(message);
    shown.end();
  } else { /* the question can be asked again */
    messages.pop();
    for (const item of [asked, shown]) if (item) item.remove();
    byId("question").value = question;
  }
  running = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  byId("question").focus();
  showTokens();
}

async function begin() {
  byId("settings").append(...SETTINGS.map(([id, name]) => {
    const label = element("label", `${name} `);
    label.append(element("input", null, { id, type: "number", step: "any" }));
    return label;
  }));
  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); if (!running) send(); });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("ask").requestSubmit();
    }
  });
  byId("stop").addEventListener("click", () => running && running.abort());
  byId("clear").addEventListener("click", () => { messages = []; byId("messages").replaceChildren(); report(""); });
  byId("prompt").addEventListener("toggle", showTokens);
  byId("key").addEventListener("change", listModels);
  await listModels();
}

async function listModels() {
  try {
    const { data } = await (await ask("v1/models")).json();
    byId("model").replaceChildren(...data.map((model) => element("option", model.id)));
    report("");
  } catch (error) {
    report(error.message, true);
  }
}

begin();
