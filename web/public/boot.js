// Before anything is painted: the chosen appearance and language, so that nothing flashes.
try {
  document.documentElement.dataset.theme = localStorage.getItem("agentchat:theme") ?? "system";
  document.documentElement.lang = localStorage.getItem("agentchat:locale") ?? navigator.language.slice(0, 2);
} catch {
  // Storage may be forbidden.
}
