// Attention marks over pictures: the row of weights under the pointer, and the patches of its tokens.
import type { TokenGrid, Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { useViews } from "../context.ts";

/** The tokens of the rows and of the columns of attention weights. */
export function tokenAxes(value: Value, tokens: readonly TokenGrid[]) {
  const [rows, columns] = value.tokens;
  return { rows: tokens[rows], columns: tokens[columns] };
}

/** A rectangle as fractions of a picture, for a style. */
const percentBox = (left: number, top: number, width: number, height: number) => ({
  left: `${100 * left}%`,
  top: `${100 * top}%`,
  width: `${100 * width}%`,
  height: `${100 * height}%`,
});

export function PatchMark({ tokens, token }: { tokens: TokenGrid; token: number }) {
  const { rows, columns, positions } = tokens;
  const place = positions[token] ?? -1;
  if (place < 0) return null;
  const [row, column] = [Math.floor(place / columns), place % columns];
  return (
    <span
      class="nbg-mark"
      data-patch={`${row},${column}`}
      style={percentBox(column / columns, row / rows, 1 / columns, 1 / rows)}
    />
  );
}

/** Darkens the patches by attention: the lower the weight of a patch, the darker. */
export function AttentionOverlay({
  tokens,
  weights,
}: {
  tokens: TokenGrid;
  weights: ArrayLike<number>;
}) {
  const { rows, columns, positions } = tokens;
  let most = 0;
  for (const [token, place] of positions.entries()) {
    if (place >= 0) most = Math.max(most, weights[token] ?? 0);
  }
  return (
    <svg
      class="nbg-veil"
      viewBox={`0 0 ${columns} ${rows}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {positions.map((place, token) => {
        if (place < 0) return null;
        const share = (weights[token] ?? 0) / (most || 1);
        return (
          <rect
            key={place}
            data-place={place}
            data-share={share}
            x={place % columns}
            y={Math.floor(place / columns)}
            width={1}
            height={1}
            fill-opacity={0.75 * (1 - Math.min(1, share))}
          />
        );
      })}
    </svg>
  );
}

/** The weights of one row of a head, for one image. */
export function weightsRow(
  value: Value,
  values: Float32Array,
  head: number,
  row: number,
): Float32Array {
  const [, , height, width] = value.nchw;
  const start = (head * height + row) * width;
  return values.subarray(start, start + width);
}

/** The token whose patch contains a pixel of the input's picture. */
export function tokenAt(tokens: TokenGrid, input: Value, y: number, x: number): number {
  const [, , height, width] = input.nchw;
  const row = Math.floor((y * tokens.rows) / height);
  const column = Math.floor((x * tokens.columns) / width);
  return tokens.positions.indexOf(row * tokens.columns + column);
}

/**
 * Marks over an attention picture or the input. While an attention picture is hovered: the same row in all heads, and
 * over the input that token's patch and its attention. While the input is hovered: the row of that patch's token.
 */
export function TokenMarks(props: {
  value: Value;
  /** The mosaic of the maps: their number, columns, and the sizes of map and gap in canvas pixels. */
  mosaic: { count: number; columns: number; width: number; height: number; gap: number };
}) {
  const { value, mosaic } = props;
  const { hover: hovered, state, attentionRow: last } = useViews();
  const hover = hovered.value;
  const known = state.plan.value?.tokens ?? [];
  const hoveredTokenAxes =
    hover?.value.display_kind === "attention" ? tokenAxes(hover.value, known) : undefined;
  const isInput =
    hoveredTokenAxes?.rows?.input === value.key || hoveredTokenAxes?.columns?.input === value.key;
  const values = useExampleValues(isInput && hover !== null ? hover.value : null);
  if (hover === null) {
    const row = last.value?.key === value.key ? last.value.row : -1;
    return row < 0 ? null : <RowMarks value={value} row={row} mosaic={mosaic} />;
  }
  if (isInput) {
    const [head = 0] = hover.channels;
    const weights = values && weightsRow(hover.value, values, head, hover.y);
    return (
      <>
        {hoveredTokenAxes?.columns !== undefined && weights && (
          <AttentionOverlay tokens={hoveredTokenAxes.columns} weights={weights} />
        )}
        {hoveredTokenAxes?.rows !== undefined && (
          <PatchMark tokens={hoveredTokenAxes.rows} token={hover.y} />
        )}
      </>
    );
  }
  if (value.display_kind !== "attention") return null;
  const { rows } = tokenAxes(value, known);
  const own = hover.value.key === value.key;
  const row = own
    ? hover.y
    : rows?.input === hover.value.key
      ? tokenAt(rows, hover.value, hover.y, hover.x)
      : -1;
  return row < 0 ? null : <RowMarks value={value} row={row} mosaic={mosaic} />;
}

function RowMarks(props: {
  value: Value;
  row: number;
  mosaic: { count: number; columns: number; width: number; height: number; gap: number };
}) {
  const { value, row } = props;
  const { count, columns, width, height, gap } = props.mosaic;
  const tokens = value.nchw[2];
  const across = columns * (width + gap) - gap;
  const down = Math.ceil(count / columns) * (height + gap) - gap;
  return (
    <>
      {Array.from({ length: count }, (_, k) => {
        const left = (k % columns) * (width + gap);
        const top = Math.floor(k / columns) * (height + gap) + (row * height) / tokens;
        const box = percentBox(left / across, top / down, width / across, height / tokens / down);
        return <span key={k} class="nbg-row-mark" data-row={row} style={box} />;
      })}
    </>
  );
}
