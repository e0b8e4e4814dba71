// What the studio's page does in the browser: files are sent to this machine's own server, columns are dragged.
// Nothing is computed here: every change is a form that the server answers. It runs before the page is shown, so that no
// file chosen in its first moments is passed over.

document.addEventListener("change", async (event) => {
  const input = event.target.closest("input[type=file][data-send]");
  if (!input || !input.files.length) return;
  const file = input.files[0];
  input.disabled = true;
  const answer = await fetch(`${input.dataset.send}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
  if (answer.ok) location.reload();
  else {
    input.disabled = false;
    input.value = "";
    const said = await answer.json().catch(() => null);
    report(said ? said.error.message : "the file could not be read");
  }
});

function report(text) {
  const line = Object.assign(document.createElement("p"), { className: "message", textContent: text });
  const box = Object.assign(document.createElement("div"), { className: "refusal" });
  box.setAttribute("role", "alert");
  box.append(line);
  document.getElementById("problems").replaceChildren(box);
}

// A refused choice leaves the step as it is; the reason is said at the foot of the page.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status < 400) return;
  event.detail.target = document.getElementById("problems");
  event.detail.swapOverride = "outerHTML";
});

let dragged = null;
document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.(".column");
  if (dragged) event.dataTransfer.effectAllowed = "move";
});
document.addEventListener("dragover", (event) => {
  const lane = dragged && event.target.closest(".lane");
  if (!lane) return;
  event.preventDefault();
  for (const other of document.querySelectorAll(".lane.over")) if (other !== lane) other.classList.remove("over");
  lane.classList.add("over");
});
document.addEventListener("drop", (event) => {
  const lane = dragged && event.target.closest(".lane");
  if (!lane) return;
  event.preventDefault();
  const select = dragged.querySelector("select");
  select.value = lane.dataset.role;
  select.dispatchEvent(new Event("change", { bubbles: true }));
});
document.addEventListener("dragend", () => {
  dragged = null;
  for (const lane of document.querySelectorAll(".lane.over")) lane.classList.remove("over");
});
