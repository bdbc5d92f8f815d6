document.querySelector("#answer").textContent = "ready";
