// Follows a search while it runs; the page is loaded anew when it has ended.

const box = document.querySelector("[data-events]");
const bar = box.querySelector("progress");
const state = box.querySelector(".status");
const stage = box.querySelector("[data-stage]");
const source = new EventSource(box.dataset.events);

source.addEventListener("progress", (event) => {
  const { status, progress } = JSON.parse(event.data);
  const part = progress?.part;
  if (part === null || part === undefined) bar.removeAttribute("value");
  else bar.value = part;
  state.className = `status ${status}`;
  state.textContent = status === "running" ? "Searching" : "Waiting";
  stage.textContent = status === "queued" ? "waiting for its turn" : progress?.stage || "starting";
});
for (const end of ["done", "failed", "cancelled"]) {
  source.addEventListener(end, () => { source.close(); location.reload(); });
}
addEventListener("pagehide", () => source.close());
