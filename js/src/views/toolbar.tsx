// The toolbar: the model's name, the tabs, and the example of the batch.

import { useLayoutEffect, useRef } from "preact/hooks";
import { displayStyle } from "../network/display_kind.ts";
import { layerCountText, type Network } from "../network/network.ts";
import { useViews } from "./context.ts";
import { LeftIcon, RightIcon } from "./icons.tsx";
import { NARROW_WIDTH, pictureSize } from "./layout.ts";
import { Maps } from "./maps.tsx";
import { PresentButton } from "./presentation_mode.tsx";
import { Slot } from "./slot.tsx";
import { tabsOf } from "./tabs.tsx";

/** Below this width there is no room for the Present button; the `p` key still works. */
const MIN_PRESENT_WIDTH = 500;

export function Toolbar({ network }: { network: Network | null }) {
  const { state, width } = useViews();
  const plan = state.plan.value;
  // A snapshot has no tabs and only one example.
  const live = network !== null && state.status.value.phase !== "unsupported";
  const name = plan?.name ?? "Viewer";
  return (
    <header class="nbg-bar" ref={useLineLayout()}>
      <div class="nbg-model">
        {live && <Slot name="barStart" slotProps={{}} />}
        <strong class="nbg-name" title={name}>
          {name}
        </strong>
        {network !== null && (
          <span class="nbg-second">
            {plan !== null && layerCountText(plan)} · {network.parametersText}
          </span>
        )}
        <Slot name="barName" slotProps={{}} />
      </div>
      {live &&
        (width.value < NARROW_WIDTH ? <TabMenu network={network} /> : <Tabs network={network} />)}
      <div class="nbg-right">
        {live && network.batchSize > 1 && <ExamplePicker network={network} />}
        {live && <Slot name="barEnd" slotProps={{}} />}
        {live && (width.value >= MIN_PRESENT_WIDTH || state.isPresenting.value) && (
          <PresentButton />
        )}
      </div>
    </header>
  );
}

/**
 * From the best layout to the one that always fits: everything on "one" line, the "tabs" or the "name" on a separate
 * line, or "each" part on its own.
 */
const TOOLBAR_LINE_LAYOUTS = ["one", "tabs", "name", "each"];

/** Keep the toolbar's line layout in `data-lines`: the parts' widths depend on the model, the source and the edits. */
function useLineLayout() {
  const bar = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const own = bar.current;
    if (own === null) return;
    const arrange = (): void => {
      for (const lines of TOOLBAR_LINE_LAYOUTS) {
        own.dataset.lines = lines;
        if (own.scrollWidth <= own.clientWidth) return;
      }
    };
    arrange();
    let frame = 0;
    // In the next frame: changing sizes inside a ResizeObserver callback is reported as an error.
    const watched = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(arrange);
    });
    for (const one of own.querySelectorAll(":scope > *, .nbg-model > *")) watched.observe(one);
    return () => {
      watched.disconnect();
      cancelAnimationFrame(frame);
    };
  });
  return bar;
}

/** A single tab stop; on a tab, the arrow keys move to its neighbours. */
function Tabs({ network }: { network: Network }) {
  const views = useViews();
  const { state, root } = views;
  const { tab } = state;
  const tabs = tabsOf(network, views);
  const now = tabs.findIndex(({ name }) => name === tab.value);
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: -1 }[event.key];
    const next = to === undefined ? undefined : tabs.at(to % tabs.length)?.name;
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // otherwise these keys would select other layers
    tab.value = next;
    root.querySelector<HTMLElement>(`.nbg-tabs [data-tab="${next}"]`)?.focus();
  };
  return (
    <div class="nbg-tabs" role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
      {tabs.map(({ name, title }) => (
        <button
          type="button"
          key={name}
          role="tab"
          data-tab={name}
          aria-selected={tab.value === name}
          tabIndex={tab.value === name ? 0 : -1}
          onClick={(event) => {
            // After a click the arrow keys are for layers, as in the opened view.
            if (event.detail > 0) root.focus({ preventScroll: true });
            tab.value = name;
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** The tabs as a menu, if there is no room for them. */
function TabMenu({ network }: { network: Network }) {
  const views = useViews();
  const { tab } = views.state;
  const tabs = tabsOf(network, views);
  return (
    <select
      class="nbg-select"
      aria-label="Views"
      value={tab.value}
      onChange={(event) => {
        const chosen = tabs.find(({ name }) => name === event.currentTarget.value);
        if (chosen !== undefined) tab.value = chosen.name;
      }}
    >
      {tabs.map(({ name, title }) => (
        <option key={name} value={name}>
          {title}
        </option>
      ))}
    </select>
  );
}

/** Buttons to step through the examples of the batch; nothing is recomputed. */
function ExamplePicker({ network }: { network: Network }) {
  const { state, pixelRatio } = useViews();
  const index = state.example.value;
  const go = (to: number): void => {
    state.example.value = (to + network.batchSize) % network.batchSize;
  };
  const input = network.inputs[0];
  const image = input !== undefined && displayStyle(input).isImage ? input : null;
  return (
    <div class="nbg-examples" role="group" aria-label="Example of the batch">
      {image !== null && <ExampleThumb input={image} pixelRatio={pixelRatio.value} />}
      <span class="nbg-second nbg-wide">Example</span>
      <button
        type="button"
        class="nbg-button nbg-square"
        aria-label="Previous example"
        onClick={() => go(index - 1)}
      >
        <LeftIcon />
      </button>
      <select
        class="nbg-select"
        aria-label="Example"
        value={index}
        onChange={(event) => go(Number(event.currentTarget.value))}
      >
        {Array.from({ length: network.batchSize }, (_, i) => (
          <option key={i} value={i}>
            {i + 1} of {network.batchSize}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="nbg-button nbg-square"
        aria-label="Next example"
        onClick={() => go(index + 1)}
      >
        <RightIcon />
      </button>
    </div>
  );
}

function ExampleThumb({
  input,
  pixelRatio,
}: {
  input: Network["inputs"][number];
  pixelRatio: number;
}) {
  const [, channels, height, width] = input.nchw;
  const { scale } = pictureSize(height, width, { width: 28 * pixelRatio, height: 28 * pixelRatio });
  return (
    <Maps
      value={input}
      channels={Array.from({ length: channels }, (_, i) => i)}
      columns={1}
      scale={scale}
      label="The chosen example"
    />
  );
}
