// The shell: bar, content, message and status line, mounted into one element.

import { computed, effect, signal } from "@preact/signals";
import { render } from "preact";
import type { Feature } from "../features/feature.ts";
import { namesOf } from "../network/classes.ts";
import { networkOf } from "../network/network.ts";
import { originalOf } from "../plan/derived_values.ts";
import type { ViewerState } from "../state.ts";
import { Bar } from "./bar.tsx";
import { type Hover, type Note, useViews, type Views, ViewsContext } from "./context.ts";
import { Keys } from "./help.tsx";
import { listenToKeys } from "./keys.ts";
import { px } from "./layout.ts";
import { createMeasures } from "./measures.ts";
import { createPainter } from "./painter.ts";
import { zoomOf } from "./present.tsx";
import { costsOf } from "./profile/costs.ts";
import { pictureOf } from "./screen/picture.ts";
import { watchPresenting } from "./screen/present.ts";
import { Slot } from "./slot.tsx";
import { Message, StatusLine } from "./status.tsx";
import { styleOf } from "./style.ts";
import { shownTab } from "./tabs.tsx";
import { watchRatio, watchSizes, watchTheme } from "./theme.ts";
import { Tooltip } from "./tooltip/tooltip.tsx";
import { trackVisibility } from "./view_visibility.ts";

/** Shows a viewer in `el`; the returned function takes it away with all its listeners. */
export function mount(
  el: HTMLElement,
  state: ViewerState,
  features: readonly Feature[],
): () => void {
  const root = document.createElement("div");
  root.className = "nbglcnn";
  root.tabIndex = -1; // takes the focus when the element that had it is gone
  const sheet = document.createElement("style");
  const style = styleOf(features);
  sheet.textContent = style;
  el.append(sheet, root);
  el.classList.add("nbg-place");

  const theme = watchTheme();
  const ratio = watchRatio();
  const sizes = watchSizes(root);
  const zoom = computed(() => zoomOf(state, root));
  const painter = createPainter(state);
  const network = computed(() => {
    const plan = state.plan.value;
    return plan === null ? null : networkOf(plan);
  });
  const views: Views = {
    features,
    state,
    network,
    names: computed(() => {
      const names = namesOf(network.value, state.classes.value);
      return (key) => names(originalOf(key)); // also of a value without its bends, and of the difference
    }),
    theme: theme.signal,
    zoom,
    ratio: computed(() => ratio.signal.value * zoom.value),
    width: computed(() => sizes.signal.value.width),
    room: computed(() => {
      const height = limitOf(state);
      if (height === null) return null;
      return isLow(state) ? height : Math.max(0, height - sizes.signal.value.around);
    }),
    root,
    painter,
    measures: createMeasures(state),
    hover: signal<Hover | null>(null),
    note: signal<Note | null>(null),
    token: signal(null),
    pointed: signal<string | null>(null),
    costs: computed(() => {
      const plan = state.plan.value;
      return plan ? costsOf(plan, state.profile.value, state.run.peek()?.ms ?? 1) : [];
    }),
    help: signal(false),
    order: signal<readonly number[]>([]),
  };
  const stopKeys = listenToKeys(views);
  const stopSeen = trackVisibility(views);
  const screen = async () => {
    await painter.all();
    return pictureOf(root, style);
  };
  state.screens.add(screen);
  const stopPresenting = watchPresenting(views, el);
  // Fixed colour limits are those of the time when they were chosen.
  const stopEnds = effect(() => {
    if (state.range.value !== "fixed" && state.colorLimits.peek().size > 0)
      state.colorLimits.value = new Map();
  });
  // Another session's layers take their own time.
  let profiled = state.session.peek();
  const stopProfile = effect(() => {
    if (state.session.value !== profiled) state.profile.value = null;
    profiled = state.session.value;
  });
  render(
    <ViewsContext.Provider value={views}>
      <App />
    </ViewsContext.Provider>,
    root,
  );
  const content = root.querySelector<HTMLElement>(".nbg-content");
  if (content !== null) sizes.observe(content);

  return () => {
    state.screens.delete(screen);
    stopPresenting();
    render(null, root);
    stopKeys();
    stopSeen();
    stopEnds();
    stopProfile();
    painter.dispose();
    for (const watched of [theme, ratio, sizes]) watched.dispose();
    sheet.remove();
    root.remove();
    el.classList.remove("nbg-place");
  };
}

/** CSS pixels: what bar and status line may take in a narrow place, and some more; with the drawer open. */
const LOW = 240;
const LOW_WITH_DRAWER = 480;

/** How high a viewer may be; null where nothing limits it. */
const limitOf = ({ presenting, height }: ViewerState): number | null =>
  presenting.value ? null : height.value;

/** Whether bar, drawer and status line leave the content so little that all of it scrolls together. */
function isLow(state: ViewerState): boolean {
  const height = limitOf(state);
  return height !== null && height < (state.drawer.value ? LOW_WITH_DRAWER : LOW);
}

function App() {
  const { state, network, theme, root, width } = useViews();
  const now = network.value;
  root.dataset.theme = theme.value;
  root.dataset.phase = state.status.value.phase;
  const height = limitOf(state);
  // All of the viewer, bar and status line too: its content scrolls, and all of it where these alone take more.
  root.style.maxHeight = height === null ? "" : px(height);
  root.toggleAttribute("data-limited", height !== null);
  root.toggleAttribute("data-low", isLow(state));
  return (
    <>
      <Bar network={now} />
      <Slot name="drawer" of={{}} />
      <main class="nbg-content">
        {now !== null && width.value > 0 && <Content />}
        <Message />
        <Keys />
      </main>
      <StatusLine />
      <Tooltip />
      <Slot name="everywhere" of={{}} />
    </>
  );
}

function Content() {
  const views = useViews();
  const { state, network } = views;
  const now = network.value;
  if (now === null) return null;
  const snapshot = state.snapshot.value;
  if (snapshot !== null) {
    return (
      <div class="nbg-snapshot">
        <img
          src={snapshot}
          alt={`${state.plan.value?.name ?? "The network"}: pictures from Python`}
        />
      </div>
    );
  }
  const { component: Shown } = shownTab(now, state.tab.value, views);
  return <Shown network={now} />;
}
