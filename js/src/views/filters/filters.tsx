// The weights of a layer as pictures: kernels, rows of a linear layer, scale and shift of a normalisation.
import { useMemo, useState } from "preact/hooks";
import { exact, short } from "../../format.ts";
import { longType, type Network, type Stage } from "../../network/network.ts";
import type { Layer, Value } from "../../plan.ts";
import { NotFinite } from "../bars.tsx";
import { gradient } from "../colors.ts";
import { placeOf, pointIn, useValues, useViews } from "../context.ts";
import { largest } from "../layout.ts";
import { Pages } from "../pages.tsx";
import { type Kernels, kernelsOf, parametersOf } from "../weights.ts";
import { type Cell, KernelPictures } from "./kernels.tsx";

/** Ends of the weights' colours, or of their curves, as a legend. */
function WeightLegend({ most, line }: { most: number; line: boolean }) {
  const { state, theme } = useViews();
  if (line) {
    return (
      <span class="nbg-legend">
        {short(-most)} to {short(most)} from bottom to top
      </span>
    );
  }
  return (
    <span class="nbg-legend">
      <span>{short(-most)}</span>
      <span
        class="nbg-gradient"
        style={{ background: gradient(state.colormap.value, theme.value, 0, 1) }}
      />
      <span>{short(most)}</span>
    </span>
  );
}

const SMALL_GAP = 7;

/** CSS pixels of a kernel: whole ones a weight; a curve as wide as about `side`, and wider for its taps. */
function cellOf({ height, width, line }: Kernels, scale: number, side: number) {
  if (!line) return { width: width * scale, height: height * scale };
  const wide = Math.round(Math.max(1.4 * side, Math.min(120, 2 * height * width)));
  return { width: wide, height: Math.round(0.7 * side) };
}

const scaleFor = ({ height, width }: Kernels, side: number): number =>
  Math.max(1, Math.floor(side / Math.max(height, width)));

/** Up to four rows of kernels about 34 px large; a little smaller where that fills the last row. */
function smallRows(count: number, kernels: Kernels, width: number) {
  const side = 34;
  const largest = scaleFor(kernels, side);
  const rowsAt = (scale: number) => {
    const cell = cellOf(kernels, scale, (side * scale) / largest);
    const most = Math.max(1, Math.floor((width + SMALL_GAP) / (cell.width + SMALL_GAP)));
    const shown = Math.min(count, most * 4);
    const columns = Math.ceil(shown / Math.ceil(shown / most));
    return { cell, columns, shown };
  };
  for (let scale = largest; scale >= largest * 0.7; scale--) {
    const rows = rowsAt(scale);
    if (rows.shown % rows.columns === 0) return rows;
  }
  return rowsAt(largest);
}

/** Below the maps: one kernel per channel, in the maps' order. */
export function SmallFilters(props: { kernels: Kernels; order: readonly number[]; width: number }) {
  const { kernels, order, width } = props;
  const values = useValues(kernels.weight);
  const most = useMemo(() => (values === null ? 0 : largest(values)), [values]);
  // One output channel has a kernel for each input channel; several are shown by their first.
  const single = kernels.outputs === 1 && kernels.inputs > 1;
  const all = single
    ? Array.from({ length: kernels.inputs }, (_, input): Cell => ({ output: 0, input }))
    : order.map((output): Cell => ({ output, input: 0 }));
  const { cell, columns, shown } = smallRows(all.length, kernels, width);
  const cells = all.slice(0, shown);
  if (values === null || kernels.weight.shape.length === 2) return null;
  const some = cells.length < all.length ? `${cells.length} of ${all.length} · ` : "";
  const which = single
    ? "one for each input channel"
    : kernels.inputs > 1
      ? "for the first input channel"
      : "same order as the maps";
  return (
    <section class="nbg-block">
      <Weights
        title="Filters"
        words={`${some}${which}`}
        kernels={kernels}
        values={values}
        cells={cells}
        columns={columns}
        cell={cell}
        gap={SMALL_GAP}
        most={most}
        label={`Filters of ${kernels.layer.name}`}
      />
    </section>
  );
}

/** Kernels under a heading that says whose they are and how they lie. */
function Weights(props: { title: string; words: string } & Parameters<typeof KernelPictures>[0]) {
  const { title, words, ...pictures } = props;
  const { weight } = pictures.kernels;
  return (
    <>
      <header>
        <h3>
          {title}{" "}
          <span class="nbg-second">
            {weight.key} · {weight.shape.join("×")} · {words}
          </span>
        </h3>
        <WeightLegend most={pictures.most} line={pictures.kernels.line} />
      </header>
      <KernelPictures {...pictures} />
    </>
  );
}

/** The Filters view: every layer of the stage with its weights. */
export function Filters(props: { network: Network; stage: Stage; width: number }) {
  const { network, stage, width } = props;
  const plan = useViews().state.plan.value;
  if (plan === null) return null;
  return (
    <div class="nbg-filters">
      {stage.layers.map((layer) => {
        const kernels = kernelsOf(plan, network, layer);
        const parameters = parametersOf(plan, network, layer);
        const rest = parameters.filter((value) => value !== kernels?.weight);
        return (
          parameters.length > 0 && (
            <div key={layer.name} class="nbg-filters">
              {kernels !== null && <KernelTable kernels={kernels} width={width} />}
              {rest.map((value) => (
                <Numbers key={value.key} layer={layer} value={value} width={width} />
              ))}
            </div>
          )
        );
      })}
    </div>
  );
}

/** Rows are output channels, columns the input channels they read. */
function KernelTable({ kernels, width }: { kernels: Kernels; width: number }) {
  const values = useValues(kernels.weight);
  const most = useMemo(() => (values === null ? 0 : largest(values)), [values]);
  const [page, setPage] = useState(0);
  const { inputs, outputs } = kernels;
  const linear = kernels.weight.shape.length === 2;
  const room = width - 40;
  const side = inputs === 1 ? 34 : inputs <= 16 ? 28 : 16;
  // One picture a row for a matrix; a kernel is at least 14 px, and wide layers get pages of columns.
  const scale = linear
    ? Math.max(1, Math.min(12, Math.floor(room / kernels.width)))
    : scaleFor(kernels, side);
  const cell = cellOf(kernels, scale, side);
  const gap = linear ? 0 : Math.max(2, Math.min(6, Math.round(cell.width * 0.18)));
  const across = Math.max(1, Math.floor((room + gap) / (cell.width + gap)));
  const wrapped = inputs === 1 && !linear;
  const columns = wrapped ? across : Math.min(inputs, across);
  const rows = linear ? 256 : wrapped ? 64 : Math.max(1, Math.floor(560 / (cell.height + gap)));
  const perPage = wrapped ? rows * across : rows;
  const pages = Math.ceil(outputs / perPage);
  const cells = useMemo(() => {
    const found: Cell[] = [];
    for (let output = page * perPage; output < Math.min(outputs, (page + 1) * perPage); output++) {
      for (let input = 0; input < columns && input < inputs; input++) found.push({ output, input });
      if (wrapped) continue;
    }
    return found;
  }, [page, perPage, outputs, columns, inputs, wrapped]);
  if (values === null) return null;
  const first = page * perPage;
  const last = Math.min(outputs, first + perPage) - 1;
  const words = linear
    ? "rows: outputs, columns: inputs"
    : wrapped
      ? "one per channel"
      : `rows: output channels ${first}–${last}, columns: input channels 0–${columns - 1}` +
        (columns < inputs ? ` of ${inputs}` : "");
  return (
    <section class="nbg-block">
      <Weights
        title={longType(kernels.layer)}
        words={words}
        kernels={kernels}
        values={values}
        cells={cells}
        columns={columns}
        cell={cell}
        gap={gap}
        most={most}
        label={`Weights of ${kernels.layer.name}`}
      />
      {pages > 1 && <Pages page={page} pages={pages} go={setPage} />}
    </section>
  );
}

const NAMES = new Map([
  ["weight", "scale"],
  ["bias", "shift"],
  ["running_mean", "running mean"],
  ["running_var", "running variance"],
]);

/** One number per channel, as upright bars: bias, scale, shift, running mean and variance. */
function Numbers(props: { layer: Layer; value: Value; width: number }) {
  const { layer, value, width } = props;
  const views = useViews();
  const values = useValues(value);
  if (values === null) return null;
  const most = largest(values) || 1;
  const leaf = value.key.slice(value.key.lastIndexOf(".") + 1);
  const normal = layer.explains.endsWith(" norm");
  const word = normal ? (NAMES.get(leaf) ?? leaf) : leaf;
  const height = 56;
  const along = Math.max(1, Math.min(14, (width - 40) / values.length));
  const negative = values.some((number) => number < 0);
  const zero = negative ? height / 2 : height;
  const point = (event: PointerEvent): void => {
    const i = Math.floor(pointIn(event.currentTarget as Element, event, views).left / along);
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
  const leave = (): void => {
    views.note.value = null;
  };
  return (
    <section class="nbg-block">
      <header>
        <h3>
          {word[0]?.toUpperCase()}
          {word.slice(1)}{" "}
          <span class="nbg-second">
            {value.key} · {value.shape.join("×")} ·{" "}
            {largest(values) === 0 ? "all 0" : negative ? `±${short(most)}` : `0 to ${short(most)}`}
          </span>
        </h3>
      </header>
      <svg
        class="nbg-bars"
        width={Math.ceil(along * values.length)}
        height={height}
        role="img"
        aria-label={`${word} of ${layer.name}`}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={leave}
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
    </section>
  );
}
