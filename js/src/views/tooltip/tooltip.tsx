// The tooltip of the number under the pointer: its value, position and rank within the map.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { HoverTarget } from "../../messages.ts";
import type { ClassNameLookup } from "../../network/class_names.ts";
import { channelNoun, displayStyle } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import { formatExact, formatInteger } from "../../number_format.ts";
import { valueRank } from "../channel_similarity.ts";
import { type Hover, imageIndex, type TextTooltip, useValues, useViews } from "../context.ts";
import { argsortDescending } from "../layout.ts";

/** For a class map, the channel that determines the pixel's colour, once the values are available. */
function withTopChannel(
  hover: Hover,
  network: Network,
  example: number,
  values: Float32Array | null,
): Hover {
  if (displayStyle(hover.value).name !== "classes" || hover.channels.length < 2) return hover;
  const { numbers } = valuesAt(hover, network, example, values);
  const [first = 0] = argsortDescending(numbers.map((number) => number ?? Number.NaN));
  return { ...hover, channels: [hover.channels[first] ?? 0] };
}

/** The text for a position in a picture; "…" for a value that has not arrived yet. */
export function hoverText(
  hover: Hover,
  network: Network,
  example: number,
  values: Float32Array | null,
  names?: ClassNameLookup,
): { title: string; text: string } {
  const [, channels, height, width] = hover.value.nchw;
  const size = height * width;
  const { numbers, startOf, offset } = valuesAt(hover, network, example, values);
  const texts = numbers.map((number) => (number === undefined ? "…" : formatExact(number)));
  const [one] = hover.channels;
  const place: string[] = [];
  const shown = displayStyle(hover.value).name;
  const word = shown === "bars" ? "channel" : channelNoun(hover.value);
  if (numbers.length === 1 && channels > 1) place.push(`${word} ${one}`);
  if (shown === "attention") place.push(`token ${hover.y} attends to token ${hover.x}`);
  const name = names?.(hover.value.key)[one ?? -1];
  if (numbers.length === 1 && name) place.unshift(name);
  if (size > 1) place.push(height > 1 ? `y ${hover.y}, x ${hover.x}` : `x ${hover.x}`);
  if (hover.showRank && values !== null && numbers.length === 1 && one !== undefined) {
    const start = startOf(one);
    place.push(
      `rank ${formatInteger(valueRank(values, start, size, start + offset))} of ${formatInteger(size)}`,
    );
  }
  const letters = ["R", "G", "B"];
  const title =
    texts.length > 1 ? texts.map((text, i) => `${letters[i]} ${text}`).join("  ") : texts.join("");
  return { title, text: place.join(" · ") };
}

/** The values at a position, one per channel; undefined until they have arrived. */
function valuesAt(hover: Hover, network: Network, example: number, values: Float32Array | null) {
  const [, channels, height, width] = hover.value.nchw;
  const offset = hover.y * width + hover.x;
  const image = imageIndex(hover.value, network, example);
  const startOf = (channel: number) => (image * channels + channel) * height * width;
  const numbers = hover.channels.map((channel) => values?.[startOf(channel) + offset]);
  return { numbers, startOf, offset };
}

/** The same data for Python. */
function createHoverTarget(
  hover: Hover,
  network: Network,
  example: number,
  values: Float32Array | null,
): HoverTarget {
  const { numbers } = valuesAt(hover, network, example, values);
  const known = numbers.filter((number) => number !== undefined);
  const [channel = null] = hover.channels;
  return {
    layer: hover.value.key,
    channel: hover.channels.length === 1 ? channel : null,
    y: hover.y,
    x: hover.x,
    values: known.map((number) => (Number.isFinite(number) ? number : (`${number}` as "NaN"))),
  };
}

/** Report the position under this view's pointer to Python. */
function usePointerReport(hover: Hover | null, values: Float32Array | null): void {
  const { state, network } = useViews();
  const isReporting = useRef(false);
  const now = network.value;
  const example = state.example.value;
  useEffect(() => {
    const spot =
      hover !== null && now?.values.has(hover.value.key) === true
        ? createHoverTarget(withTopChannel(hover, now, example, values), now, example, values)
        : null;
    if (spot === null && !isReporting.current) return; // another view of this viewer may report
    isReporting.current = spot !== null;
    state.hoverTarget.value = spot;
  }, [state, hover, values, now, example]);
  useEffect(
    () => () => {
      if (isReporting.current) state.hoverTarget.value = null;
    },
    [state],
  );
}

/**
 * Clear the tooltip if the pointer leaves the viewer or the hovered element is removed: a removed element gets no leave
 * event.
 */
function useClearOnLeave(element: Element | null): void {
  const { root, hover, tooltip } = useViews();
  useEffect(() => {
    if (element === null) return;
    const leave = (): void => {
      hover.value = null;
      tooltip.value = null;
    };
    const observer = new MutationObserver(() => {
      if (!root.contains(element)) leave();
    });
    observer.observe(root, { childList: true, subtree: true });
    root.addEventListener("pointerleave", leave);
    if (!root.contains(element)) leave(); // removed before this effect ran
    return () => {
      observer.disconnect();
      root.removeEventListener("pointerleave", leave);
    };
  }, [element, root, hover, tooltip]);
}

export function Tooltip() {
  const views = useViews();
  const hover = views.hover.value;
  useClearOnLeave(hover?.element ?? views.tooltip.value?.element ?? null);
  const network = views.network.value;
  const values = useValues(hover?.value ?? null);
  const pair = network?.comparisonPairs.get(hover?.value.key ?? "");
  const a = useValues(network?.values.get(pair?.a ?? "") ?? null);
  const b = useValues(network?.values.get(pair?.b ?? "") ?? null);
  const difference = useValues(network?.values.get(pair?.difference ?? "") ?? null);
  usePointerReport(hover, values);
  if (hover !== null && network !== null) {
    const example = views.state.example.value;
    const at = withTopChannel(hover, network, example, values);
    const words = hoverText(at, network, example, values, views.classNames.value);
    if (pair !== undefined) {
      const title = [a, b, difference]
        .map((one) => hoverText(hover, network, example, one).title)
        .map((text, k) => `${["A", "B", "B − A"][k]} ${text}`)
        .join(" · ");
      return <TooltipBox {...words} title={title} left={hover.left} top={hover.top} />;
    }
    return <TooltipBox {...words} left={hover.left} top={hover.top} />;
  }
  const note = views.tooltip.value;
  return note === null ? null : <TooltipBox {...note} />;
}

/** The tooltip, kept inside the viewer: on one side of the pointer if there is room, else on the other. */
function TooltipBox({ title, text, left, top }: Omit<TextTooltip, "element">) {
  const { root } = useViews();
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const x = left + 14 + width > root.clientWidth ? left - 14 - width : left + 14;
    const y = top - 12 - height < 0 ? top + 18 : top - 12 - height;
    element.style.transform = `translate(${Math.max(2, x)}px, ${y}px)`;
  });
  return (
    <div class="nbg-tip" ref={box} role="tooltip">
      <strong>{title}</strong>
      {text !== "" && <span>{text}</span>}
    </div>
  );
}
