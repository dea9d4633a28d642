// A lesson: numbered steps, one shown at a time, each with what the views show beside it.

/** Shows the step that the address names (#3), and follows it and the buttons; `onStep` is told each step from 0. */
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
    location.hash = String(now + by + 1); // which is a place in the reader's history
  };
  back?.addEventListener("click", go(-1));
  next?.addEventListener("click", go(1));
  window.addEventListener("hashchange", follow);
  document.documentElement.classList.add("lesson");
  follow();
}
