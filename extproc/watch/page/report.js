// The same in a file of its own, with nothing around it.
"use strict";

const exchange = JSON.parse(document.getElementById("exchange").textContent);
const shown = new Detail(document.getElementById("detail"), [
  ["s", "Save recording", saveRecording],
  ["r", "Replay", () => shown.replay()],
]);
shown.open(exchange);
shown.place.prepend(
  element("p", { class: "notice" }, "Everything that was said in this exchange is in this file: prompts, tools, arguments, results and answers. Keys, cookies, addresses and clients' names are not. Read it before you pass it on."),
);
shown.place.append(element("footer", { class: "faint" }, `Made by extproc ${exchange.extproc}, of an exchange that began ${exchange.began}.`));

function saveRecording() {
  const data = new Blob([exchange.recording], { type: "application/json" });
  const link = element("a", { href: URL.createObjectURL(data), download: "recording.json" });
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "s") saveRecording();
  else if (event.key === "r") shown.replay();
  else if (event.key === "Escape") shown.stop();
  else if ("1234".includes(event.key) && event.key) shown.showAlone(shown.alone === Number(event.key) ? 0 : Number(event.key));
  else if (event.key === "ArrowLeft") shown.goTo(shown.replaying?.at - 1, true);
  else if (event.key === "ArrowRight") shown.goTo(shown.replaying?.at + 1, true);
});
