// One number per channel, as upright bars: bias, scale, shift, running mean and variance.
import { useMemo, useRef, useState } from "preact/hooks";
import { exact, short } from "../../format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { NotFinite } from "../bars.tsx";
import { placeOf, pointIn, useValues, useViews } from "../context.ts";
import { largest } from "../layout.ts";
import { focusChosen } from "./cells.tsx";
import { type Box, Corners, Ring } from "./corners.tsx";
import { EditButton, Editor, useSteps } from "./editor.tsx";
import { drag, useHand } from "./hand.ts";
import { differs } from "./originals.ts";
import { vectorSheet } from "./sheet.ts";

const NAMES = new Map([
  ["weight", "scale"],
  ["bias", "shift"],
  ["running_mean", "running mean"],
  ["running_var", "running variance"],
]);

/** One number per channel, as upright bars: bias, scale, shift, running mean and variance. */
export function Numbers(props: { layer: Layer; value: Value; width: number }) {
  const { layer, value, width } = props;
  const views = useViews();
  const values = useValues(value);
  const hand = useHand(value, values);
  const section = useRef<HTMLElement>(null);
  const [open, setOpen] = useState(false);
  const [typing, type] = useState(false);
  const [chosen, choose] = useState({ row: 0, column: 0 });
  const onKeyDown = useSteps();
  const leaf = value.key.slice(value.key.lastIndexOf(".") + 1);
  const normal = layer.explains.endsWith(" norm");
  const word = normal ? (NAMES.get(leaf) ?? leaf) : leaf;
  const sheet = useMemo(() => vectorSheet(value.read.count, word), [value, word]);
  if (values === null || hand === null) return null;
  const most = largest(values) || 1;
  const height = 56;
  const along = Math.max(1, Math.min(14, (width - 40) / values.length));
  const negative = values.some((number) => number < 0);
  const zero = negative ? height / 2 : height;
  const under = (event: MouseEvent): number => {
    const i = Math.floor(pointIn(event.currentTarget as Element, event, views).left / along);
    return Math.max(0, Math.min(values.length - 1, i));
  };
  const press = (event: PointerEvent): void => {
    point(event);
    if (event.button !== 0) return;
    const column = under(event);
    type(false);
    setOpen(true);
    choose({ row: 0, column });
    if (event.pointerType === "touch") return;
    drag(event, views, hand, column, sheet.words(0, column), () => focusChosen(section.current));
  };
  const point = (event: PointerEvent): void => {
    const i = under(event);
    const number = values[i];
    views.note.value =
      number === undefined
        ? null
        : {
            title: exact(number),
            text: `${word} of channel ${i}`,
            ...placeOf(event, views),
          };
  };
  const changed: Box[] = [];
  for (let k = 0; k < values.length && hand.changed > 0; k++) {
    if (!differs(values[k], hand.original[k])) continue;
    changed.push({ left: k * along, top: 0, width: along, height });
  }
  const leave = (): void => {
    views.note.value = null;
  };
  return (
    <section
      class="nbg-block"
      role="group"
      aria-label={`${value.key}, and how it is edited`}
      ref={section}
      onKeyDown={onKeyDown}
    >
      <header>
        <h3>
          {word[0]?.toUpperCase()}
          {word.slice(1)}{" "}
          <span class="nbg-second">
            {value.key} · {value.shape.join("×")} ·{" "}
            {largest(values) === 0 ? "all 0" : negative ? `±${short(most)}` : `0 to ${short(most)}`}
          </span>
        </h3>
        <span class="nbg-hand-end">
          <EditButton hand={hand} open={open} set={setOpen} />
        </span>
      </header>
      <div class="nbg-editable">
        <svg
          class="nbg-bars"
          width={Math.ceil(along * values.length)}
          height={height}
          role="img"
          aria-label={`${word} of ${layer.name}`}
          onPointerMove={point}
          onPointerDown={press}
          onPointerLeave={leave}
          onDblClick={() => type(hand.able)}
        >
          {Array.from(values, (number, i) => {
            if (!Number.isFinite(number)) {
              const slot = { x: i * along, y: 0, width: along, height };
              return <NotFinite key={i} number={number} {...slot} />;
            }
            const size = (Math.abs(number) / most) * (negative ? height / 2 : height);
            return (
              <rect
                key={i}
                class={number < 0 ? "nbg-negative" : "nbg-positive"}
                x={i * along + along * 0.08}
                y={number < 0 ? zero : zero - size}
                width={along * 0.84}
                height={size}
              />
            );
          })}
          <line class="nbg-zero" x1={0} x2={along * values.length} y1={zero} y2={zero} />
        </svg>
        <Corners boxes={changed} width={Math.ceil(along * values.length)} height={height} />
        {open && <Ring left={chosen.column * along} top={0} width={along} height={height} />}
      </div>
      {open && (
        <Editor
          {...{ hand, sheet, most, width, typing, type }}
          place={chosen}
          go={(place) => choose({ row: 0, column: place.column })}
        />
      )}
    </section>
  );
}
