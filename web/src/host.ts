// A page with dashboards that has the chat as a drawer: shows how a host embeds it. Not part of the chat.
import "./styles/fonts.css";
import "./styles/host.css";
import { type AgentChatElement, type Focus } from "./embed";
import { loadConfig } from "./lib/page";

const rows: [id: string, title: string, owner: string, environment: string, problems: number][] = [
  ["7", "Warehouse stock", "logistics", "prod", 0],
  ["11", "Delivery times", "logistics", "prod", 1],
  ["17", "Marketing funnel", "marketing", "prod", 2],
  ["31", "Finance P&L", "finance", "prod", 0],
  ["38", "Customer churn", "crm", "staging", 1],
  ["42", "Sales overview", "sales", "prod", 1],
  ["57", "Support tickets", "support", "prod", 0],
  ["71", "Payment failures", "finance", "prod", 1],
];

const config = await loadConfig();
const chat = document.querySelector("agent-chat") as AgentChatElement;
const body = document.getElementById("rows") as HTMLTableSectionElement;
chat.getToken = () => localStorage.getItem(config.token_key);
chat.addEventListener("agent-chat:sign-in", () => {
  location.assign(config.demo_users.length ? "./index.html" : config.login_url);
});
chat.addEventListener("agent-chat:touched", (event) => {
  const { type, id } = (event as CustomEvent<Focus>).detail;
  for (const row of body.rows)
    row.classList.toggle("is-touched", type === "dashboard" && row.dataset["id"] === id);
});
if (chat.getToken()) chat.renewed();

for (const [id, title, owner, environment, problems] of rows) {
  const row = body.insertRow();
  row.dataset["id"] = id;
  row.tabIndex = 0;
  for (const text of [id, title, owner, environment]) row.insertCell().textContent = text;
  const state = row.insertCell();
  state.textContent = problems ? `${problems} problem${problems > 1 ? "s" : ""}` : "passed";
  state.className = problems ? "is-bad" : "is-good";
  const focus = () => {
    for (const other of body.rows) other.classList.toggle("is-focused", other === row);
    chat.focusTarget = { type: "dashboard", id, title };
  };
  row.addEventListener("focus", focus);
  row.addEventListener("click", focus);
}
