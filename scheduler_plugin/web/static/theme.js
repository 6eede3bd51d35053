// Light or dark as Airflow around the page is, with Airflow's own colours where they can be seen.

const COLOURS = {
  "--bg": "--chakra-colors-bg",
  "--fg": "--chakra-colors-fg",
  "--muted": "--chakra-colors-fg-muted",
  "--line": "--chakra-colors-border",
};

export function followTheme() {
  const around = window.parent !== window ? reachable() : null;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const words = around?.documentElement.classList;
    const kept = localStorage.getItem("theme");
    const dark = words?.contains("dark") || (!words?.contains("light") && (kept === "dark" || (kept !== "light" && system.matches)));
    const own = document.documentElement;
    own.dataset.theme = dark ? "dark" : "light";
    if (!around) return;
    const style = getComputedStyle(around.documentElement);
    for (const [ours, theirs] of Object.entries(COLOURS)) {
      const colour = style.getPropertyValue(theirs).trim();
      if (colour) own.style.setProperty(ours, colour);
    }
    // Airflow's own subtle ground is darker than its ground in the dark, and cards would look like holes.
    own.style.setProperty("--soft", "color-mix(in srgb, var(--fg) 4%, var(--bg))");
    const font = getComputedStyle(around.body).fontFamily;
    if (font) own.style.setProperty("--font", font);
  };
  apply();
  system.addEventListener("change", apply);
  if (around) new MutationObserver(apply).observe(around.documentElement, { attributes: true, attributeFilter: ["class"] });
}

function reachable() {
  try {
    return window.parent.document;
  } catch {
    return null;
  }
}
