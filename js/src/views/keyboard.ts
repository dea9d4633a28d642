// Keyboard handling while the viewer has the focus; JupyterLab's single-key commands are suppressed meanwhile.
import { batch } from "@preact/signals";
import type { TabKeyBindings } from "../features/feature.ts";
import { COLORMAPS } from "../messages.ts";
import { channelCount } from "../network/display_kind.ts";
import type { Network } from "../network/network.ts";
import type { TabName } from "../state.ts";
import { channelOrder } from "./channel_order.ts";
import type { Views } from "./context.ts";
import { focusedElement, isSearchField, leaveSearch } from "./layer_search.ts";
import { togglePresenting } from "./presentation_mode.tsx";
import { shownTab, tabsOf } from "./tabs.tsx";

// A text field, a list or an open menu handles these keys itself.
const takesKeys = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("select, input, textarea") !== null;

export function listenToKeys(views: Views): () => void {
  const { root, state } = views;

  const step = <T>(items: readonly T[], now: T, by: number): T | undefined =>
    items[(Math.max(0, items.indexOf(now)) + by + items.length) % items.length];

  const shownKeys = (network: Network): TabKeyBindings =>
    shownTab(network, state.tab.peek(), views).keyBindings;

  const moveLayer = (by: number): void => {
    const network = views.network.peek();
    if (network === null) return;
    const { names, at } = shownKeys(network).layers(network, state.selected.peek());
    const layer = names[at < 0 ? 0 : Math.min(names.length - 1, Math.max(0, at + by))];
    if (layer !== undefined) state.selected.value = { layer, channel: null };
  };

  const moveChannel = (by: number): void => {
    const network = views.network.peek();
    if (network === null) return;
    const selected = shownKeys(network).channel?.(network, state.selected.peek()) ?? null;
    const value = network.values.get(selected?.layer ?? "");
    if (selected === null || value === undefined) return;
    // A key may arrive before the layer is on screen: use the order by number then.
    const known = views.channelOrder.peek();
    const length = channelCount(value);
    const order = known.length === length ? known : channelOrder(length, "number", null);
    const at = selected.channel === null ? -1 : order.indexOf(selected.channel);
    const channel = order[Math.min(order.length - 1, Math.max(0, at + by))];
    if (channel !== undefined) state.selected.value = { ...selected, channel };
  };

  const moveExample = (by: number): void => {
    const count = views.network.peek()?.batchSize ?? 1;
    state.example.value = (state.example.peek() + by + count) % count;
  };

  // The pending animation frame in which the focus follows an arrow key.
  let following = 0;

  /**
   * Switch to another tab. The focused element disappears with its tab, so the focus moves to the root before the next
   * key arrives.
   */
  const show = (tab: TabName): void => {
    cancelAnimationFrame(following);
    root.focus({ preventScroll: true });
    state.tab.value = tab;
  };

  /** Enter on a picture: open the selected layer, else the picture's own layer. */
  const open = (target: EventTarget | null): boolean => {
    if (!(target instanceof HTMLElement) || !target.classList.contains("nbg-picture")) return false;
    // After an arrow key the focus follows one frame later; the selection is already up to date.
    const layer =
      state.selected.peek()?.layer ?? target.closest<HTMLElement>("[data-layer]")?.dataset.layer;
    if (layer === undefined) return false;
    state.selected.value = { layer, channel: null };
    show("layer");
    return true;
  };

  const act = (key: string, target: EventTarget | null): boolean => {
    const network = views.network.peek();
    const keys = network === null ? undefined : shownKeys(network);
    if (keys?.onKey?.(key, views)) return true;
    switch (key) {
      case "ArrowLeft":
        moveLayer(-1);
        return true;
      case "ArrowRight":
        moveLayer(1);
        return true;
      case "ArrowUp":
      case "ArrowDown":
        if (keys?.channel === undefined) return false;
        moveChannel(key === "ArrowDown" ? 1 : -1);
        return true;
      case "p":
        togglePresenting(views);
        return true;
      case "Escape": {
        if (views.isHelpOpen.peek()) {
          views.isHelpOpen.value = false;
          return true;
        }
        if (state.isPresenting.peek()) {
          state.isPresenting.value = false;
          return true;
        }
        const [first] = network !== null && keys?.escapeToFirstTab ? tabsOf(network, views) : [];
        if (first === undefined) {
          // A second Esc returns the keyboard to the notebook.
          const active = focusedElement(root);
          if (active instanceof HTMLElement) active.blur();
          return true;
        }
        show(first.name);
        return true;
      }
      case "Enter":
        return open(target);
      case "c":
        state.colormap.value = step(COLORMAPS, state.colormap.peek(), 1) ?? "signed";
        return true;
      case "r":
        state.rangeMode.value = state.rangeMode.peek() === "layer" ? "channel" : "layer";
        return true;
      case "?":
        views.isHelpOpen.value = !views.isHelpOpen.peek();
        return true;
      case "[":
      case "]":
        moveExample(key === "]" ? 1 : -1);
        return true;
      default:
        return false;
    }
  };

  /** Move the focus to the element that the arrow key selected. */
  const follow = (key: string): void => {
    const network = views.network.peek();
    if (network === null || !key.startsWith("Arrow")) return;
    cancelAnimationFrame(following);
    const { channel, focusSelector } = shownKeys(network);
    const across = key === "ArrowLeft" || key === "ArrowRight";
    const place = across || channel === undefined ? focusSelector : ".nbg-frame";
    const from = focusedElement(root);
    following = requestAnimationFrame(() => {
      const now = focusedElement(root);
      // The focused element may have been re-rendered, or a later key or click may have moved the focus.
      if (now !== from && now !== root && now !== null && now !== document.body) return;
      root.querySelector<HTMLElement>(`${place}[tabindex="0"]`)?.focus();
    });
  };

  const plain = (event: KeyboardEvent): boolean =>
    !event.ctrlKey && !event.metaKey && !event.altKey;

  // JupyterLab listens on the document in the capture phase, so its suppress attribute is set earlier, on the window.
  const before = (event: KeyboardEvent): void => {
    const inside = event.target instanceof Node && root.contains(event.target);
    root.toggleAttribute("data-lm-suppress-shortcuts", inside && plain(event) && !event.shiftKey);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!plain(event) || (event.shiftKey && event.key !== "?")) return;
    event.stopPropagation();
    if (event.key === "Escape" && isSearchField(event.target)) {
      event.preventDefault();
      leaveSearch(root);
      return;
    }
    if (takesKeys(event.target) || !batch(() => act(event.key, event.target))) return;
    event.preventDefault();
    follow(event.key);
  };
  window.addEventListener("keydown", before, true);
  root.addEventListener("keydown", onKey);
  return () => {
    window.removeEventListener("keydown", before, true);
    root.removeEventListener("keydown", onKey);
    cancelAnimationFrame(following);
  };
}
