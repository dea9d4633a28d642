// The viewer's shell: toolbar, content, message and status line, mounted into one element.

import { computed, effect, signal } from "@preact/signals";
import { render } from "preact";
import type { Feature } from "../features/feature.ts";
import { createClassNameLookup } from "../network/class_names.ts";
import { indexNetwork } from "../network/network.ts";
import { baseKey } from "../plan/derived_values.ts";
import type { ViewerState } from "../state.ts";
import { type Hover, type TextTooltip, useViews, type Views, ViewsContext } from "./context.ts";
import { KeyHelp } from "./help.tsx";
import { listenToKeys } from "./keyboard.ts";
import { px } from "./layout.ts";
import { watchPixelRatio, watchSizes, watchTheme } from "./page_signals.ts";
import { createPainter } from "./painter.ts";
import { zoomOf } from "./presentation_mode.tsx";
import { layerCosts } from "./profile/costs.ts";
import { createRunQueries } from "./run_queries.ts";
import { watchPresenting } from "./screen/fullscreen.ts";
import { takeScreenshot } from "./screen/screenshot.ts";
import { Slot } from "./slot.tsx";
import { StatusLine, StatusMessage } from "./status_line.tsx";
import { styleOf } from "./style.ts";
import { shownTab } from "./tabs.tsx";
import { Toolbar } from "./toolbar.tsx";
import { Tooltip } from "./tooltip/tooltip.tsx";
import { trackVisibility } from "./view_visibility.ts";

/** Mount a viewer in `el`; return a function that removes it with all its listeners. */
export function mount(
  el: HTMLElement,
  state: ViewerState,
  features: readonly Feature[],
): () => void {
  const root = document.createElement("div");
  root.className = "nbglcnn";
  root.tabIndex = -1; // receives the focus when the focused element is removed
  const sheet = document.createElement("style");
  const style = styleOf(features);
  sheet.textContent = style;
  el.append(sheet, root);
  el.classList.add("nbg-host");

  const theme = watchTheme();
  const ratio = watchPixelRatio();
  const sizes = watchSizes(root);
  const zoom = computed(() => zoomOf(state, root));
  const painter = createPainter(state);
  const network = computed(() => {
    const plan = state.plan.value;
    return plan === null ? null : indexNetwork(plan);
  });
  const views: Views = {
    features,
    state,
    network,
    classNames: computed(() => {
      const names = createClassNameLookup(network.value, state.classNames.value);
      return (key) => names(baseKey(key)); // also for the unedited value and the difference
    }),
    theme: theme.signal,
    zoom,
    pixelRatio: computed(() => ratio.signal.value * zoom.value),
    width: computed(() => sizes.signal.value.width),
    contentHeight: computed(() => {
      const height = heightLimit(state);
      if (height === null) return null;
      return isTooLowToScrollContent(state)
        ? height
        : Math.max(0, height - sizes.signal.value.chromeHeight);
    }),
    root,
    painter,
    queries: createRunQueries(state),
    hover: signal<Hover | null>(null),
    tooltip: signal<TextTooltip | null>(null),
    attentionRow: signal(null),
    hoveredLayer: signal<string | null>(null),
    costs: computed(() => {
      const plan = state.plan.value;
      return plan ? layerCosts(plan, state.layerTimes.value, state.run.peek()?.ms ?? 1) : [];
    }),
    isHelpOpen: signal(false),
    channelOrder: signal<readonly number[]>([]),
  };
  const stopKeys = listenToKeys(views);
  const stopSeen = trackVisibility(views);
  const screen = async () => {
    await painter.drawAll();
    return takeScreenshot(root, style);
  };
  state.viewCaptureCallbacks.add(screen);
  const stopPresenting = watchPresenting(views, el);
  // Discard fixed colour limits in other modes: they are recorded again when "fixed" is chosen.
  const stopEnds = effect(() => {
    if (state.rangeMode.value !== "fixed" && state.colorLimits.peek().size > 0)
      state.colorLimits.value = new Map();
  });
  // A new session's layers have other times.
  let profiled = state.session.peek();
  const stopProfile = effect(() => {
    if (state.session.value !== profiled) state.layerTimes.value = null;
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
    state.viewCaptureCallbacks.delete(screen);
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
    el.classList.remove("nbg-host");
  };
}

/**
 * CSS pixels: minimum height for separate scrolling of the content, somewhat more than toolbar and status line need in
 * a narrow viewer; and with the drawer open.
 */
const MIN_CONTENT_SCROLL_HEIGHT = 240;
const DRAWER_MIN_SCROLL_HEIGHT = 480;

/** The maximum height of a viewer; null if it is unlimited. */
const heightLimit = ({ isPresenting, maxHeight }: ViewerState): number | null =>
  isPresenting.value ? null : maxHeight.value;

/** Whether toolbar, drawer and status line leave too little room for the content, so that the whole viewer scrolls. */
function isTooLowToScrollContent(state: ViewerState): boolean {
  const height = heightLimit(state);
  return (
    height !== null &&
    height < (state.isDrawerOpen.value ? DRAWER_MIN_SCROLL_HEIGHT : MIN_CONTENT_SCROLL_HEIGHT)
  );
}

function App() {
  const { state, network, theme, root, width } = useViews();
  const now = network.value;
  root.dataset.theme = theme.value;
  root.dataset.phase = state.status.value.phase;
  const height = heightLimit(state);
  // Limits the whole viewer, including toolbar and status line. Its content scrolls; if these parts alone take more,
  // the whole viewer does.
  root.style.maxHeight = height === null ? "" : px(height);
  root.toggleAttribute("data-limited", height !== null);
  root.toggleAttribute("data-low", isTooLowToScrollContent(state));
  return (
    <>
      <Toolbar network={now} />
      <Slot name="drawer" slotProps={{}} />
      <main class="nbg-content">
        {now !== null && width.value > 0 && <Content />}
        <StatusMessage />
        <KeyHelp />
      </main>
      <StatusLine />
      <Tooltip />
      <Slot name="globalListeners" slotProps={{}} />
    </>
  );
}

function Content() {
  const views = useViews();
  const { state, network } = views;
  const now = network.value;
  if (now === null) return null;
  const snapshot = state.snapshotUrl.value;
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
