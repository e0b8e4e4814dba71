// What a page does in the browser: an editor over the text field, charts, copying. No arithmetic: numbers come as text.
const base = document.body.dataset.static;

function refresh(root) {
  for (const area of root.querySelectorAll("textarea[data-editor]")) mountEditor(area);
  for (const place of root.querySelectorAll(".chart[data-spec]")) drawChart(place);
}

async function mountEditor(area) {
  if (area.dataset.mounted) return;
  area.dataset.mounted = "yes";
  const { mount } = await import(`${base}/editor.js`);
  mount(area);
}

async function drawChart(place) {
  const { draw } = await import(`${base}/chart.js`);
  await draw(place);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "copied";
});

document.body.addEventListener("htmx:afterSettle", () => refresh(document));
document.body.addEventListener("htmx:beforeRequest", () => document.getElementById("answer")?.setAttribute("aria-busy", "true"));
document.body.addEventListener("htmx:afterRequest", () => document.getElementById("answer")?.removeAttribute("aria-busy"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh(document));
refresh(document);
