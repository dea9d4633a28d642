// A lesson: numbered steps, shown one at a time; each sets what the views show.

/** Show the step in the URL's hash (#3); follow the hash and the buttons. `onStep` is called with each step, from 0. */
export function startLesson(onStep: (step: number) => void): void {
  const steps = [...document.querySelectorAll<HTMLElement>("[data-step]")];
  const [back, next] = ["back", "next"].map((name) =>
    document.querySelector<HTMLButtonElement>(`[data-go="${name}"]`),
  );
  const links = [...document.querySelectorAll<HTMLAnchorElement>(".steps a")];
  if (steps.length === 0) return;
  let now = -1;
  const show = (step: number): void => {
    now = step;
    for (const [k, element] of steps.entries()) element.classList.toggle("away", k !== step);
    for (const [k, link] of links.entries()) {
      if (k === step) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
    if (back) back.disabled = step === 0;
    if (next) next.disabled = step === steps.length - 1;
    onStep(step);
  };
  const follow = (): void => {
    const asked = Number(location.hash.slice(1)) - 1;
    const step = Number.isInteger(asked) && asked in steps ? asked : Math.max(0, now);
    if (step !== now) show(step);
  };
  const go = (by: number) => () => {
    location.hash = String(now + by + 1); // adds an entry to the browser's history
  };
  back?.addEventListener("click", go(-1));
  next?.addEventListener("click", go(1));
  window.addEventListener("hashchange", follow);
  document.documentElement.classList.add("lesson");
  follow();
}
