// Before anything is painted: the colours that this reader chose. Without a choice they follow the system.
try {
  const chosen = localStorage.getItem("saibot-guide-scheme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.scheme = chosen;
} catch { /* a browser that keeps nothing follows the system */ }
