// One number per channel, as upright bars: bias, scale, shift, running mean and variance.
import { useMemo, useRef, useState } from "preact/hooks";
import { formatExact, formatShort } from "../../number_format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { NonFiniteBar } from "../bar_chart.tsx";
import { pointerOffset, pointerPosition, useValues, useViews } from "../context.ts";
import { maxAbs } from "../layout.ts";
import { EditedCorners, type PixelBox, SelectionRing } from "./edit_marks.tsx";
import { focusSelectedCell } from "./number_grid.tsx";
import { differs } from "./original_weights.ts";
import { EditButton, ParameterEditor, useUndoKeys } from "./parameter_editor.tsx";
import { startWeightDrag, useWeightEditor } from "./weight_editor.ts";
import { vectorSheet } from "./weight_sheet.ts";

const NORM_PARAMETER_LABELS = new Map([
  ["weight", "scale"],
  ["bias", "shift"],
  ["running_mean", "running mean"],
  ["running_var", "running variance"],
]);

/** One number per channel, as upright bars: bias, scale, shift, running mean and variance. */
export function ParameterBars(props: { layer: Layer; value: Value; width: number }) {
  const { layer, value, width } = props;
  const views = useViews();
  const values = useValues(value);
  const editor = useWeightEditor(value, values);
  const section = useRef<HTMLElement>(null);
  const [open, setOpen] = useState(false);
  const [isTyping, setTyping] = useState(false);
  const [chosen, choose] = useState({ row: 0, column: 0 });
  const onKeyDown = useUndoKeys();
  const leaf = value.key.slice(value.key.lastIndexOf(".") + 1);
  const normal = layer.explanation.endsWith(" norm");
  const word = normal ? (NORM_PARAMETER_LABELS.get(leaf) ?? leaf) : leaf;
  const sheet = useMemo(() => vectorSheet(value.readback.count, word), [value, word]);
  if (values === null || editor === null) return null;
  const largest = maxAbs(values) || 1;
  const height = 56;
  const along = Math.max(1, Math.min(14, (width - 40) / values.length));
  const negative = values.some((number) => number < 0);
  const zero = negative ? height / 2 : height;
  const under = (event: MouseEvent): number => {
    const i = Math.floor(pointerOffset(event.currentTarget as Element, event, views).left / along);
    return Math.max(0, Math.min(values.length - 1, i));
  };
  const press = (event: PointerEvent): void => {
    point(event);
    if (event.button !== 0) return;
    const column = under(event);
    setTyping(false);
    setOpen(true);
    choose({ row: 0, column });
    if (event.pointerType === "touch") return;
    startWeightDrag(event, views, editor, column, sheet.elementText(0, column), () =>
      focusSelectedCell(section.current),
    );
  };
  const point = (event: PointerEvent): void => {
    const i = under(event);
    const number = values[i];
    views.tooltip.value =
      number === undefined
        ? null
        : {
            title: formatExact(number),
            text: `${word} of channel ${i}`,
            ...pointerPosition(event, views),
          };
  };
  const changed: PixelBox[] = [];
  for (let k = 0; k < values.length && editor.changedCount > 0; k++) {
    if (!differs(values[k], editor.originalValues[k])) continue;
    changed.push({ left: k * along, top: 0, width: along, height });
  }
  const leave = (): void => {
    views.tooltip.value = null;
  };
  return (
    <section
      class="nbg-block"
      role="group"
      aria-label={`${value.key} and its editor`}
      ref={section}
      onKeyDown={onKeyDown}
    >
      <header>
        <h3>
          {word[0]?.toUpperCase()}
          {word.slice(1)}{" "}
          <span class="nbg-second">
            {value.key} · {value.shape.join("×")} ·{" "}
            {maxAbs(values) === 0
              ? "all 0"
              : negative
                ? `±${formatShort(largest)}`
                : `0 to ${formatShort(largest)}`}
          </span>
        </h3>
        <span class="nbg-weight-editor-end">
          <EditButton editor={editor} open={open} setOpen={setOpen} />
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
          onDblClick={() => setTyping(editor.canEdit)}
        >
          {Array.from(values, (number, i) => {
            if (!Number.isFinite(number)) {
              const slot = { x: i * along, y: 0, width: along, height };
              return <NonFiniteBar key={i} number={number} {...slot} />;
            }
            const size = (Math.abs(number) / largest) * (negative ? height / 2 : height);
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
        <EditedCorners boxes={changed} width={Math.ceil(along * values.length)} height={height} />
        {open && (
          <SelectionRing left={chosen.column * along} top={0} width={along} height={height} />
        )}
      </div>
      {open && (
        <ParameterEditor
          {...{ editor, sheet, maxAbs: largest, width, isTyping, setTyping }}
          position={chosen}
          moveTo={(place) => choose({ row: 0, column: place.column })}
        />
      )}
    </section>
  );
}
