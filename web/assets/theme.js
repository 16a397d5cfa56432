// Runs before the first paint, so that a chosen theme never flashes.
document.documentElement.dataset.theme = localStorage.getItem("turno-theme") ?? "auto";
