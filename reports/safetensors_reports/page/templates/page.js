"use strict";
(function () {
  // Buttons that copy a command; without scripts a click selects it.
  document.querySelectorAll("button.copy").forEach(function (button) {
    if (!navigator.clipboard) { return; }
    button.hidden = false;
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(button.previousElementSibling.textContent).then(function () {
        button.textContent = "copied";
      });
    });
  });
})();
(function () {
  var form = document.getElementById("filter");
  var all = Array.prototype.slice.call(document.querySelectorAll("article.finding"));
  if (!form || !all.length) { return; }
  var said = document.getElementById("shown");
  var texts = all.map(function (one) { return one.textContent.toLowerCase(); });
  function value(name) { return form.elements[name] ? form.elements[name].value : ""; }
  function show() {
    var words = value("q").toLowerCase().split(/\s+/).filter(Boolean);
    var count = 0;
    all.forEach(function (one, number) {
      var fits = (!value("s") || one.dataset.s === value("s")) && (!value("v") || one.dataset.v === value("v"));
      if (fits && value("i")) {
        fits = one.dataset.i.split(" ").indexOf(value("i")) >= 0;
      }
      fits = fits && words.every(function (word) { return texts[number].indexOf(word) >= 0; });
      one.hidden = !fits;
      count += fits ? 1 : 0;
    });
    document.querySelectorAll(".level").forEach(function (level) {
      level.hidden = !level.querySelector("article:not([hidden])");
    });
    said.textContent = count + " of " + all.length + " shown";
  }
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  form.addEventListener("reset", function () { setTimeout(show, 0); });
  show();
  // A link into a closed part opens it, and what the filter hides comes back.
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var one = target; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") { one.open = true; }
      if (one.hidden) { form.reset(); show(); }
    }
    if (target) { target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", reveal);
  reveal();
})();
